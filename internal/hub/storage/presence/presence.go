// Package presence is the membership of hubs and agents on a log: the running hubs, the sessions of
// agents, and the status of each agent.
//
// Each hub has a lease, and writes its own key and the keys of its sessions under it. When the hub
// dies, all of them disappear together. They are written when a session begins or ends; a heartbeat
// never causes a write. The package must not decide what the hub does about missing members.
package presence

import (
	"encoding/json"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Hub is the published state of a running hub, at key.Hub.
type Hub struct {
	// URL is the URL of the hub, and Version its version.
	URL     string `json:"url"`
	Version string `json:"version"`
	// Needs is the oldest revision that its readers resume from, and Seen a revision that its table
	// has reached; 0 if unknown. Both are published again from time to time.
	Needs int64 `json:"needs,omitempty"`
	Seen  int64 `json:"seen,omitempty"`
	// Schema is the version of the schemas of its kinds. Kinds are the versions of kinds that have
	// changed since version 1, such as placements.orrery.dev. Schema is 0 for a hub without schema
	// versions.
	Schema int            `json:"schema,omitempty"`
	Kinds  map[string]int `json:"kinds,omitempty"`
}

// Session is the session of an agent, at Session.Key, as written by the hub that holds it. Its
// fields hold for the whole session.
type Session struct {
	// Hub is the ID of the hub, and Since when the session began, by the hub's clock.
	Hub   string    `json:"hub"`
	Since time.Time `json:"since"`
	// Lacks names parts of the location's spec that the agent does not support and may not ignore;
	// empty for none. Blind reports that the agent does not report upsynced or owned objects.
	Lacks string `json:"lacks,omitempty"`
	Blind bool   `json:"blind,omitempty"`
}

// AgentStatus is the last status that an agent sent to any hub, at Session.StatusKey, with facts about
// the agent that hubs have recorded. It stays when the session ends.
type AgentStatus struct {
	// UID is the UID of the Location.
	UID string `json:"uid"`
	// Status is the agent's status of itself; nil if it has sent none. SignedBy is the authority
	// that signed the credential of that request; empty for none.
	Status   *wire.AgentStatus `json:"status,omitempty"`
	SignedBy string            `json:"signedBy,omitempty"`
	// Refused is the protocol version of a refused agent; empty if none was refused, or an agent
	// has connected since.
	Refused string `json:"refused,omitempty"`
	// Strange is the shard of a refused agent that the location does not have; empty if there was
	// none, or an agent has connected since.
	Strange string `json:"strange,omitempty"`
	// LastSeen is the time, by the clock of a hub, at which the hub last recorded that the agent sends
	// requests without a session, for example during a long comparison. Other hubs only compare it
	// with its previous value.
	LastSeen time.Time `json:"heard,omitzero"`
	// Exceeds is how many reports of upsynced or owned objects in its last request exceeded the
	// limits.
	Exceeds int `json:"exceeds,omitempty"`
}

// Hubs returns the running hubs in a state of the log, by ID.
func Hubs(state table.Reader) map[string]Hub {
	all := map[string]Hub{}
	state.Ascend(key.Hubs.Prefix(), func(row *table.Row) bool {
		var h Hub
		if json.Unmarshal(row.Value, &h) == nil {
			all[row.Key[len(key.Hubs.Prefix()):]] = h
		}
		return true
	})
	return all
}

// SessionsOf returns the sessions of a location's agents in a state of the log, by shard.
func SessionsOf(state table.Reader, l key.Location) map[key.Shard]Session {
	var all map[key.Shard]Session
	state.Ascend(key.LocationSessions(l), func(row *table.Row) bool {
		if agent, ok := key.SessionOf(row.Key); ok {
			if all == nil {
				all = map[key.Shard]Session{}
			}
			all[agent.Shard] = readSession(row)
		}
		return true
	})
	return all
}

// Open reports whether an agent of a location has a session at any hub.
func Open(state table.Reader, l key.Location) (open bool) {
	state.Ascend(key.LocationSessions(l), func(*table.Row) bool { open = true; return false })
	return open
}

// AgentStatusOf returns the last status of an agent of the location with a UID; nil if there is none.
func AgentStatusOf(state table.Reader, s key.Session, uid string) *AgentStatus {
	row := state.Get(s.StatusKey())
	if row == nil {
		return nil
	}
	var stored AgentStatus
	if json.Unmarshal(row.Value, &stored) != nil || stored.UID != uid {
		return nil
	}
	return &stored
}

func readSession(row *table.Row) (s Session) {
	_ = json.Unmarshal(row.Value, &s) // an unreadable value is a session of an unknown hub
	return s
}
