package controllers

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestClusterThatIsAnotherOne: an operator reads in the condition ClusterAvailable since when the cluster of a
// location is another one than before.
func TestClusterThatIsAnotherOne(t *testing.T) {
	const when = "2026-11-28T12:00:00Z"
	for _, c := range []struct {
		cluster *wire.ClusterStatus
		status  metav1.ConditionStatus
		names   bool
	}{
		{&wire.ClusterStatus{State: wire.ClusterAvailable}, metav1.ConditionTrue, false},
		{&wire.ClusterStatus{State: wire.ClusterAvailable, Replaced: when}, metav1.ConditionTrue, true},
		{nil, metav1.ConditionUnknown, false}, // an older agent
		{&wire.ClusterStatus{State: wire.ClusterUnavailable, Replaced: when, Message: "refused"}, metav1.ConditionFalse, false},
	} {
		var all []metav1.Condition
		seen := sighting{session: &presence.Session{}, reported: &presence.AgentStatus{Status: &wire.AgentStatus{Cluster: c.cluster}}}
		seen.setClusterAvailable(&all, time.Now(), 1)
		got := meta.FindStatusCondition(all, v1alpha1.ConditionClusterAvailable)
		if got == nil || got.Status != c.status || strings.Contains(got.Message, when) != c.names {
			t.Errorf("%+v: %+v", c.cluster, got)
		}
	}
}
