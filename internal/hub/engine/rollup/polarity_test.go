package rollup

import "testing"

func TestBadByName(t *testing.T) {
	for _, name := range []string{
		"Ready", "Available", "Synced", "Healthy", "Established", "NamesAccepted", "Accepted", "Programmed", "ResolvedRefs", "Approved",
		"DisruptionAllowed", "AbleToScale", "ContainersReady", "NoConflicts", "example.com/Ready", "", "succeeded",
	} {
		if badByName(name) {
			t.Errorf("%q is taken for bad", name)
		}
	}
	for _, name := range []string{
		"Stalled", "Reconciling", "Degraded", "Failed", "ReplicaFailure", "NotReady", "MemoryPressure", "NetworkUnavailable", "Conflicted",
		"PartiallyInvalid", "Denied", "Issuing", "Paused", "LoadBalancerPortsError", "example.com/Suspended", "UpgradeFailed",
	} {
		if !badByName(name) {
			t.Errorf("%q is taken for good", name)
		}
	}
}
