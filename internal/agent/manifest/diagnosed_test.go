package manifest

import (
	"slices"
	"testing"
)

// TestRightsToDiagnose: an agent that writes workloads may list what these own, and one that writes none may not.
func TestRightsToDiagnose(t *testing.T) {
	lists := func(mapped ...string) (all []string) {
		r := Rights{Mapped: mapped}
		for _, rule := range r.rules() {
			if slices.Equal(rule.Verbs, []string{"list"}) {
				all = append(all, rule.Resources[0]+"."+rule.APIGroups[0])
			}
		}
		return all
	}
	if got, want := lists("deployments.apps", "jobs.batch", "configmaps"), []string{"events.", "persistentvolumeclaims.", "pods.", "replicasets.apps"}; !slices.Equal(got, want) {
		t.Errorf("for workloads: %v, want %v", got, want)
	}
	if got := lists("configmaps", "widgets.example.org"); len(got) > 0 {
		t.Errorf("without workloads: %v", got)
	}
}
