package controllers

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

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
// agents. It does not change while they have no session or do not know, and is Unknown if their
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
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonAgentTooOld
		condition.Message = "the agent is of a version that does not report whether the cluster answers: upgrade it"
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

// compatible returns the condition Compatible; ok is false if it is unknown, as it is without a
// session.
func (s sighting) compatible() (condition metav1.Condition, ok bool) {
	condition = metav1.Condition{Type: v1alpha1.ConditionCompatible, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProtocol}
	switch {
	case s.reported != nil && s.reported.Refused != "":
		condition.Message = fmt.Sprintf("the agent speaks protocol version %q, this hub version %s: upgrade the older one", s.reported.Refused, wire.ProtocolVersion)
	case s.session == nil:
		return condition, false
	case s.session.Lacks != "":
		condition.Message = fmt.Sprintf("the agent is too old for %s of the location, and is sent nothing: upgrade it", s.session.Lacks)
	default:
		condition.Status, condition.Message = metav1.ConditionTrue, "agent and hub speak the same protocol"
	}
	return condition, true
}

// upsynced returns the condition Upsynced of a Location with upsync entries whose agents have a
// session.
func (s sighting) upsynced(upsyncs placement.Upsyncs, spec *v1alpha1.LocationSpec) metav1.Condition {
	var reported wire.UpsyncStatus
	exceeds := 0
	if s.reported != nil {
		exceeds = s.reported.Exceeds
		if st := s.reported.Status; st != nil && st.Upsync != nil {
			reported = *st.Upsync
		}
	}
	most := upsync.Limits(spec)
	_, dropped := upsyncs.Entries()
	is := metav1.Condition{Type: v1alpha1.ConditionUpsynced, Status: metav1.ConditionFalse}
	switch {
	case s.session.Blind:
		is.Reason, is.Message = v1alpha1.ReasonAgentTooOld, "the agent does not support upsync: upgrade it"
	case dropped:
		is.Reason, is.Message = v1alpha1.ReasonLimitExceeded, "the upsync entries of spaces exceed the limit of an agent: some objects are not reported"
	case reported.Omitted > 0 || exceeds > 0:
		is.Reason = v1alpha1.ReasonLimitExceeded
		is.Message = fmt.Sprintf("%d objects do not come back: the location's limits are %d objects and %d bytes", max(reported.Omitted, exceeds), most.Objects, most.Bytes)
	case len(reported.Unread) > 0:
		is.Reason, is.Message = v1alpha1.ReasonUnread, "kinds that the agent can't read: "+unreadText(reported.Unread)
	default:
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, v1alpha1.ReasonAsked, "all requested objects are reported"
	}
	return is
}

// unreadText names the first kinds that an agent cannot read, with the reasons.
func unreadText(all []wire.UnreadKind) string {
	var some []string
	for _, k := range all[:min(maxShown, len(all))] {
		some = append(some, fmt.Sprintf("%s of %s (%s)", k.Resource, k.Group, k.Message))
	}
	return clip(strings.Join(some, "; "))
}

// enrolled returns the condition Enrolled of a Location by the record of its enrolment; ok is false
// if no agent has joined. An agent that had a session has joined, also with credentials of earlier
// versions.
func enrolled(enrolment, row *table.Row, l key.Location, opened bool) (condition metav1.Condition, ok bool) {
	var value []byte
	if enrolment != nil {
		value = enrolment.Value
	}
	record := enroll.ParseRecord(value, row.Meta.UID)
	condition = metav1.Condition{
		Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonJoined, Message: "an agent has joined",
	}
	switch flag, why := revoked(record, presence.ShardsOf(row)); {
	case why != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonRevoked
		if why.Reused {
			condition.Reason = v1alpha1.ReasonCredentialReused
		}
		condition.Message = clip(why.Message) + "; to go on, run: orrery location token " + string(l) + flag
		if why.Shown != nil {
			condition.Message += "; if a snapshot of the agent's machine or volume was restored, run instead: orrery location readmit " + string(l) + flag
		}
	case !record.Enrolled() && !opened:
		return condition, false
	}
	return condition, true
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
