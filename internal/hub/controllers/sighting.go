package controllers

import (
	"cmp"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// sighting is the state of a location's agents by the log. session joins their sessions; it is nil
// unless all agents that share the location have one. reported joins their statuses; it is nil if
// there are none yet.
type sighting struct {
	session  *presence.Session
	reported *presence.AgentStatus
	// missing are the agents without a session. shards holds the state of each agent if several
	// share the location.
	missing []key.Session
	shards  []v1alpha1.ShardStatus
}

// sightingOf reads the state of a location's agents.
func sightingOf(state table.Reader, l key.Location, row *table.Row) (seen sighting) {
	open, all := presence.SessionsOf(state, l), presence.AgentsOf(l, row)
	var session presence.Session
	var reported []*presence.AgentStatus
	for _, agent := range all {
		is, there := open[agent.Shard]
		if !there {
			seen.missing = append(seen.missing, agent)
		}
		session.Lacks, session.Blind = cmp.Or(session.Lacks, is.Lacks), session.Blind || is.Blind
		status := v1alpha1.ShardStatus{Shard: agent.Shard.String(), Connected: there}
		if s := presence.AgentStatusOf(state, agent, row.Meta.UID); s != nil {
			reported = append(reported, s)
			if s.Status != nil {
				status.Version, status.Halted = clip(s.Status.Version), clip(s.Status.Halted)
			}
		}
		if len(all) > 1 {
			seen.shards = append(seen.shards, status)
		}
	}
	if len(all) == 1 {
		if len(reported) == 1 {
			seen.reported = reported[0]
		}
	} else {
		seen.reported = presence.Joined(reported, len(seen.missing) == 0 && len(reported) == len(all))
	}
	if len(seen.missing) == 0 {
		seen.session = &session
	}
	return seen
}
