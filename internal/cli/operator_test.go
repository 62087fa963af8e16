package cli

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestAcceptance: a log counts as accepted once the agent follows it. An agent that waits for another log,
// is not connected or changes nothing is named, and one that has not answered is waited for.
func TestAcceptance(t *testing.T) {
	connected := metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue}
	lost := metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse}
	for _, c := range []struct {
		name      string
		agent     v1alpha1.AgentStatus
		connected metav1.Condition
		done, err string
	}{
		{"not answered", v1alpha1.AgentStatus{LogIdentity: "Unproven", Awaits: "a"}, connected, "", ""},
		{"connects again", v1alpha1.AgentStatus{LogIdentity: "Unproven"}, connected, "", ""},
		{"follows", v1alpha1.AgentStatus{LogIdentity: "Proven"}, connected, "its agent has accepted this hub's log; 3 changes that waited are applied", ""},
		{"another log", v1alpha1.AgentStatus{LogIdentity: "Unproven", Awaits: "b"}, connected, "", "it waits for the acceptance of log b; accept again"},
		{"another log, lost", v1alpha1.AgentStatus{LogIdentity: "Unproven", Awaits: "b"}, lost, "", "it waits for the acceptance of log b; accept again"},
		{"lost", v1alpha1.AgentStatus{LogIdentity: "Unproven", Awaits: "a"}, lost, "its agent is not connected; it accepts log a when it connects, unless the hub has been restarted since it last was; see: orrery location describe berlin", ""},
		{"halted", v1alpha1.AgentStatus{LogIdentity: "Unproven", Awaits: "a", Halted: "paused"}, connected, "its agent changes nothing at present (paused); it accepts log a after that", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := v1alpha1.Location{ObjectMeta: metav1.ObjectMeta{Name: "berlin"}, Status: v1alpha1.LocationStatus{Agent: &c.agent, Conditions: []metav1.Condition{c.connected}}}
			done, err := acceptance(&l, "a", 3)
			if done != c.done || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("got %q and error %v, want %q and %q", done, err, c.done, c.err)
			}
		})
	}
}
