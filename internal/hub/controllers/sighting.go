package controllers

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// sighting is the state of a location's agents by the log. session joins their sessions; it is nil
// unless all agents that share the location have one. reported joins their statuses; it is nil if
// there are none yet.
type sighting struct {
	session  *presence.Session
	reported *presence.Said
	// missing are the agents without a session. shards holds the state of each agent if several
	// share the location.
	missing []key.Session
	shards  []v1alpha1.ShardStatus
}

// sightingOf reads the state of a location's agents.
func sightingOf(state table.Reader, l key.Location, row *table.Row) (seen sighting) {
	open, all := presence.SessionsOf(state, l), presence.AgentsOf(l, row)
	var session presence.Session
	var reported []*presence.Said
	for _, agent := range all {
		is, there := open[agent.Shard]
		if !there {
			seen.missing = append(seen.missing, agent)
		}
		session.Lacks, session.Blind = cmp.Or(session.Lacks, is.Lacks), session.Blind || is.Blind
		status := v1alpha1.ShardStatus{Shard: agent.Shard.String(), Connected: there}
		if s := presence.SaidBy(state, agent, row.Meta.UID); s != nil {
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

// connected returns the condition Connected of a location whose agents all have a session.
func (s sighting) connected() metav1.Condition {
	message := "the agent holds a session"
	if n := len(s.shards); n > 0 {
		message = fmt.Sprintf("the agents of all %d shards hold a session", n)
	}
	return metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: "Session", Message: message}
}

// disconnected returns the condition Connected of a location without the sessions of all agents.
func (s sighting) disconnected() metav1.Condition {
	reason, message := "Disconnected", "no agent holds a session"
	if len(s.shards) > 0 {
		var missing []string
		for _, session := range s.missing {
			missing = append(missing, session.Shard.String())
		}
		message = "no agent holds a session for shard " + strings.Join(missing, ", ")
	}
	if s.reported != nil && s.reported.Strange != "" {
		reason = v1alpha1.ReasonOtherShards
		message += "; an agent that was started with --shards " + s.reported.Strange + " is rejected: it differs from the location's spec.shards"
	}
	return metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// setClusterAvailable sets the condition ClusterAvailable of a Location from the reports of its
// agents. It does not change while they have no session or do not know, and is removed if their
// version does not report it.
func (s sighting) setClusterAvailable(all *[]metav1.Condition, now time.Time, generation int64) {
	if s.session == nil || s.reported == nil || s.reported.Status == nil {
		return
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionClusterAvailable, Status: metav1.ConditionTrue, Reason: "Answers", Message: "the API server of the cluster answers the agent",
		LastTransitionTime: metav1.NewTime(now), ObservedGeneration: generation,
	}
	switch cluster := s.reported.Status.Cluster; {
	case cluster == nil:
		meta.RemoveStatusCondition(all, condition.Type)
		return
	case cluster.State == wire.ClusterAvailable && cluster.Replaced != "":
		condition.Message = clip("the API server of the cluster answers the agent. The cluster is another one than before " + cluster.Replaced +
			": all was applied anew, and Jobs that had ended ran again. If it should be the former one, check the address in the agent's kubeconfig")
	case cluster.State == wire.ClusterAvailable:
	case cluster.State == wire.ClusterUnavailable:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonClusterUnavailable
		condition.Message = clip("the agent cannot reach the cluster since " + cluster.Since + ": " + cluster.Message)
	default:
		return
	}
	meta.SetStatusCondition(all, condition)
}

// revoked returns the first revocation among the agents that share a location, and the command-line
// flag for its shard; nil if there is none.
func revoked(record enroll.Record, shards int) (flag string, why *enroll.Revocation) {
	for number := 1; number <= shards; number++ {
		if why = record.ForShard(number).Revoked; why != nil {
			if number > 1 {
				flag = fmt.Sprintf(" --shard %d", number)
			}
			return flag, why
		}
	}
	return "", nil
}
