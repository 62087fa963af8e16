package hub_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestProviderServesNoVersion: a provider's CRD that serves no version defines nothing.
// Consumers read on, and their bindings say so, also those made later.
func TestProviderServesNoVersion(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.create("c", clustersGVR, cluster("one", "gold"))
	serves := func(is bool) { r.redefines(func(version map[string]any) { version["served"] = is }) }
	serves(false)
	r.bound("c", v1alpha1.ReasonNoDefinition)
	r.readsOn(v1alpha1.ReasonNoDefinition)
	r.exportSays(v1alpha1.ReasonNoDefinition, 1)
	r.addSpace("d")
	r.create("d", bindingsGVR, fleetBinding("p"))
	r.bound("d", v1alpha1.ReasonNoDefinition)
	serves(true)
	r.bound("c", v1alpha1.ReasonServed)
	r.bound("d", v1alpha1.ReasonServed)
	if _, err := r.clusters("c").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	r.create("d", clustersGVR, cluster("two", "gold"))
}
