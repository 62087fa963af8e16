package builtin

import (
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestStatusesThatReturn shows that locations are asked for the statuses of all built-in
// kinds that have one, but for those whose status is about the space, and of no other.
func TestStatusesThatReturn(t *testing.T) {
	for _, k := range builtins(t) {
		r := k.Resource
		requested := placement.DefaultReturn(r) != v1alpha1.ReturnStatusNone
		if want := k.HasStatus && r != key.Namespaces && r != key.CRDs; requested != want {
			t.Errorf("%v: the status is returned by default: %v, want %v", r, requested, want)
		}
	}
}
