package objectstate

import (
	"fmt"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// UpsyncState is the state of a location that is asked for objects of its cluster. The zero value is UpsyncPending.
type UpsyncState uint8

const (
	// UpsyncPending: no agent has joined, or the hub has not asked it yet.
	UpsyncPending UpsyncState = iota
	// UpsyncStale: the reports of the location may be old, see IsStale.
	UpsyncStale
	// UpsyncIncomplete: some requested objects are not reported, of one or more spaces.
	UpsyncIncomplete
	// UpsyncReported: the agent has a session, and reports all requested objects as far as it knows.
	UpsyncReported
)

// UpsyncStateOf returns the state of a location, by its row.
func UpsyncStateOf(row *table.Row) UpsyncState {
	if row == nil {
		return UpsyncPending
	}
	if IsRowStale(row) {
		return UpsyncStale
	}
	var connected, upsynced string
	gjson.GetBytes(row.Value, "status.conditions").ForEach(func(_, c gjson.Result) bool {
		switch c.Get("type").Str {
		case v1alpha1.ConditionConnected:
			connected = c.Get("status").Str
		case v1alpha1.ConditionUpsynced:
			upsynced = c.Get("status").Str
		}
		return true
	})
	switch {
	case connected != string(metav1.ConditionTrue) || upsynced == "":
		return UpsyncPending
	case upsynced != string(metav1.ConditionTrue):
		return UpsyncIncomplete
	}
	return UpsyncReported
}

// UpsyncCounts counts locations by their state.
type UpsyncCounts [UpsyncReported + 1]int

// SyncedUpsync returns the condition Synced of a Placement that only has upsync, by its locations. unasked is the
// number of locations and spaces for which a location reports nothing, because it does not admit that.
func SyncedUpsync(c UpsyncCounts, unasked int) metav1.Condition {
	total := 0
	for _, n := range c {
		total += n
	}
	out := metav1.Condition{Type: v1alpha1.ConditionSynced, Status: metav1.ConditionFalse}
	switch {
	case total == 0:
		out.Reason, out.Message = v1alpha1.ReasonNoLocations, noLocations
	case unasked > 0:
		out.Reason, out.Message = v1alpha1.ReasonNotAdmitted, "some locations report nothing for spec.upsync: see the condition "+v1alpha1.ConditionUpsynced
	case c[UpsyncPending] > 0:
		out.Reason = "Progressing"
		out.Message = fmt.Sprintf("%d of %d locations have no agent, or were not asked yet", c[UpsyncPending], total)
	case c[UpsyncStale] > 0:
		out.Status, out.Reason = metav1.ConditionUnknown, v1alpha1.ReasonStale
		out.Message = fmt.Sprintf("%d of %d locations can't be seen now: see kubectl get locations", c[UpsyncStale], total)
	case c[UpsyncIncomplete] > 0:
		out.Status, out.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNotReported
		out.Message = fmt.Sprintf("%d of %d locations do not report all objects that spaces request: see the condition %s of these Locations",
			c[UpsyncIncomplete], total, v1alpha1.ConditionUpsynced)
	default:
		out.Status, out.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsked
		out.Message = fmt.Sprintf("nothing is to be placed, and all %d locations report the objects of spec.upsync", total)
	}
	return out
}
