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

// sighting is what the log says of a location's agents: their sessions as if they were one,
// nil unless all that share the location have one, and what they have said, nil if that is
// nothing yet.
type sighting struct {
	session *presence.Session
	said    *presence.Said
	// missing are the agents without a session, and shards what is known of each, if several
	// share the location.
	missing []key.Session
	shards  []v1alpha1.ShardStatus
}

// sightingOf reads what the log says of the agents of a location, by its row.
func sightingOf(state table.Reader, l key.Location, row *table.Row) (seen sighting) {
	open, all := presence.SessionsOf(state, l), presence.AgentsOf(l, row)
	var session presence.Session
	var said []*presence.Said
	for _, of := range all {
		is, there := open[of.Shard]
		if !there {
			seen.missing = append(seen.missing, of)
		}
		session.Lacks, session.Blind = cmp.Or(session.Lacks, is.Lacks), session.Blind || is.Blind
		status := v1alpha1.ShardStatus{Shard: of.Shard.String(), Connected: there}
		if s := presence.SaidBy(state, of, row.Meta.UID); s != nil {
			said = append(said, s)
			if s.Status != nil {
				status.Version, status.Halted = clip(s.Status.Version), clip(s.Status.Halted)
			}
		}
		if len(all) > 1 {
			seen.shards = append(seen.shards, status)
		}
	}
	if len(all) == 1 {
		if len(said) == 1 {
			seen.said = said[0]
		}
	} else {
		seen.said = presence.Joined(said, len(seen.missing) == 0 && len(said) == len(all))
	}
	if len(seen.missing) == 0 {
		seen.session = &session
	}
	return seen
}

// connected is the condition Connected of a location whose agents all hold a session.
func (s sighting) connected() metav1.Condition {
	message := "the agent holds a session"
	if n := len(s.shards); n > 0 {
		message = fmt.Sprintf("the agents of all %d shards hold a session", n)
	}
	return metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: "Session", Message: message}
}

// disconnected is the condition Connected of a location of which an agent holds no session.
func (s sighting) disconnected() metav1.Condition {
	reason, message := "Disconnected", "no agent holds a session"
	if len(s.shards) > 0 {
		var missing []string
		for _, of := range s.missing {
			missing = append(missing, of.Shard.String())
		}
		message = "no agent holds a session for shard " + strings.Join(missing, ", ")
	}
	if s.said != nil && s.said.Strange != "" {
		reason = v1alpha1.ReasonOtherShards
		message += "; one is there that was started with --shards " + s.said.Strange + ", and is not heard: the location's spec.shards says otherwise"
	}
	return metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// setClusterAvailable sets the condition ClusterAvailable of a Location by what its agents report. It
// stays while they have no session or do not know, and is removed if their version does not report it.
func (s sighting) setClusterAvailable(all *[]metav1.Condition, now time.Time, generation int64) {
	if s.session == nil || s.said == nil || s.said.Status == nil {
		return
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionClusterAvailable, Status: metav1.ConditionTrue, Reason: "Answers", Message: "the API server of the cluster answers the agent",
		LastTransitionTime: metav1.NewTime(now), ObservedGeneration: generation,
	}
	switch cluster := s.said.Status.Cluster; {
	case cluster == nil:
		meta.RemoveStatusCondition(all, condition.Type)
		return
	case cluster.State == wire.ClusterAvailable && cluster.Replaced != "":
		condition.Message = clip("the API server of the cluster answers the agent. The cluster is another one than before " + cluster.Replaced +
			": all was applied anew, and Jobs that had ended ran again. If it should be the former one, check the address in the agent's kubeconfig")
	case cluster.State == wire.ClusterAvailable:
	case cluster.State == wire.ClusterUnavailable:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonClusterUnavailable
		condition.Message = clip("the agent does not see the cluster since " + cluster.Since + ": " + cluster.Message)
	default:
		return
	}
	meta.SetStatusCondition(all, condition)
}

// revoked is the first revocation of the agents that share a location, and the flag that names
// that one's shard; nil: there is none.
func revoked(record enroll.Record, shards int) (flag string, why *enroll.Revocation) {
	for number := 1; number <= shards; number++ {
		if why = record.Of(number).Revoked; why != nil {
			if number > 1 {
				flag = fmt.Sprintf(" --shard %d", number)
			}
			return flag, why
		}
	}
	return "", nil
}
