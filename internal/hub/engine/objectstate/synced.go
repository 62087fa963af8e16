package objectstate

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// SyncedLocation returns the condition Synced of a location: whether all assigned objects are
// applied, or else the first reason why not, and the cure.
func SyncedLocation(name key.Location, s *v1alpha1.LocationStatus, n v1alpha1.Counts) metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionSynced, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	const no = metav1.ConditionFalse
	a := s.Agent
	if a == nil {
		a = &v1alpha1.AgentStatus{}
	}
	switch {
	case !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionEnrolled):
		if now := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionEnrolled); now != nil && now.Status == metav1.ConditionFalse {
			return say(metav1.ConditionUnknown, now.Reason, "%s", now.Message)
		}
		return say(metav1.ConditionUnknown, "NotEnrolled", "no agent has joined yet")
	case meta.IsStatusConditionFalse(s.Conditions, v1alpha1.ConditionConnected):
		return say(metav1.ConditionUnknown, "Disconnected", "no agent holds a session; it keeps the cluster in the last desired state")
	case IsStale(s.Conditions):
		return say(metav1.ConditionUnknown, v1alpha1.ReasonClusterUnavailable, "the agent does not see the cluster: see the condition %s",
			v1alpha1.ConditionClusterAvailable)
	case a.LogIdentity == string(wire.Unproven):
		return say(no, "LineageUnproven",
			"this hub's log does not continue the one that the agent knows, so %d changes and removals wait; if it is the right one, "+
				"run: orrery location accept %s", a.Deferred, name)
	case a.Purge != nil:
		return say(no, "Purging", "everything is being removed: %d objects left, %d kept since others use them", a.Purge.Left, a.Purge.Kept)
	case a.Halted != "":
		return say(no, "Halted", "the agent changes nothing: %s", a.Halted)
	case a.StoreError != "":
		return say(no, v1alpha1.ReasonStoreNotWritable, "the agent keeps what it has and takes nothing new, since it can't write its data directory: %s", a.StoreError)
	case a.Prune != nil:
		return say(no, v1alpha1.ReasonPruneGuard, "%d removals wait, more than spec.prune allows at once; to let them go, "+
			"run: orrery location confirm-prune %s --digest %s", a.Prune.Pending, name, a.Prune.Digest)
	case n.Failed > 0:
		return say(no, "Failed", "%d of %d objects failed", n.Failed, n.Assigned)
	case n.Held > 0:
		return say(no, "Held", "%d of %d objects are held", n.Held, n.Assigned)
	case n.Applied < n.Assigned:
		return say(no, "Progressing", "%d of %d objects are applied", n.Applied, n.Assigned)
	}
	return say(metav1.ConditionTrue, "Applied", "%s", allApplied(n, s.Leftovers))
}

// allApplied returns the message when all assigned objects are applied, with remarks.
func allApplied(n v1alpha1.Counts, leftovers int64) string {
	message := "everything assigned is applied"
	if n.Mutated > 0 {
		message += fmt.Sprintf("; admission sets other values in %d of %d", n.Mutated, n.Assigned)
	}
	if leftovers > 0 {
		message += fmt.Sprintf("; %d objects stay that are not assigned any more, since others use them: "+
			"see orrery status --state Orphaned in their spaces", leftovers)
	}
	return message
}

const noLocations = "no location matches spec.locations: compare it with kubectl get locations --show-labels"

// LeftObjects describes objects at locations that they are not assigned to.
type LeftObjects struct {
	v1alpha1.LeftCounts
	// IsUnknown is true if there are others in the space, and the hub does not know which Placement had assigned them.
	IsUnknown bool
}

// SyncedPlacement returns the condition Synced of a Placement by its counts, those of its present and former objects
// at locations that they are not assigned to, and the numbers of objects and locations that it selects.
func SyncedPlacement(c v1alpha1.Counts, left LeftObjects, objects, locations int64) metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionSynced, Status: metav1.ConditionFalse}
	switch {
	case objects == 0:
		out.Reason, out.Message = v1alpha1.ReasonNoObjects, "no object matches spec.downsync: "+
			"orrery why KIND/NAME --location L names the first test that does not match an object"
	case locations == 0:
		out.Reason, out.Message = v1alpha1.ReasonNoLocations, noLocations
	case c.Failed > 0:
		out.Reason, out.Message = "Failed", "see status.errors"
	case c.Held > 0:
		out.Reason, out.Message = "Held", "locations keep what they have of some objects"
	case c.Applied < c.Assigned:
		out.Reason, out.Message = "Progressing", "not everything assigned is applied yet"
	case c.Stale > 0:
		out.Status, out.Reason = metav1.ConditionUnknown, v1alpha1.ReasonStale
		out.Message = fmt.Sprintf("everything assigned was applied when it was last seen; %d of %d objects are at locations that can't be seen now: "+
			"see orrery status --state stale", c.Stale, c.Assigned)
	case left.Leaving > 0:
		out.Reason = v1alpha1.ReasonRemoving
		out.Message = fmt.Sprintf("%d objects are, or may still be, at locations to which they are no longer assigned: "+
			"see orrery status --state Removing", left.Leaving)
	case left.IsUnknown:
		out.Status, out.Reason = metav1.ConditionUnknown, v1alpha1.ReasonRemoving
		out.Message = "objects of the space are, or may still be, at locations to which they are no longer assigned, and " +
			"the hub does not know which Placement had assigned them: see orrery status --state Removing"
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, "Applied", allApplied(c, left.Leftovers)
	}
	return out
}
