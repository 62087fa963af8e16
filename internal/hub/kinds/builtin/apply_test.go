package builtin

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestEveryKindCanBeApplied applies each sample server-side twice, as two
// managers, to the kind itself and to its status.
func TestEveryKindCanBeApplied(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			var applied unstructured.Unstructured
			if err := applied.UnmarshalJSON(s.canonical); err != nil {
				t.Fatal(err)
			}
			if s.kind.HasStatus {
				applied.Object["status"] = map[string]any{}
			}
			manager := s.kind.Scope("").FieldManager
			live, err := manager.Apply(s.kind.New(), &applied, "one", false)
			if err != nil {
				t.Fatal(err)
			}
			live, err = manager.Apply(live, &applied, "two", true)
			if err != nil {
				t.Fatal(err)
			}
			m, err := meta.Accessor(live)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(m.GetManagedFields()); got != 2 {
				t.Fatalf("%d managers, want 2: %v", got, m.GetManagedFields())
			}
			for _, f := range m.GetManagedFields() {
				if f.APIVersion != s.kind.GVK.GroupVersion().String() || f.Operation != metav1.ManagedFieldsOperationApply {
					t.Errorf("managed as %s %s", f.APIVersion, f.Operation)
				}
				if owned := string(f.FieldsV1.GetRawBytes()); s.kind.HasStatus && strings.Contains(owned, `"f:status"`) {
					t.Errorf("a write to the object owns its status: %s", owned)
				}
			}
			// The applied object is stored without its managed fields.
			m.SetManagedFields(nil)
			checkTravel(t, s, "as applied", live)
		})
	}
}

// TestConversionsKeepEverything goes to the other version of a kind and back.
func TestConversionsKeepEverything(t *testing.T) {
	m, err := sharedMachinery()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples(t) {
		for _, other := range builtins(t) {
			if other.Resource != s.kind.Resource || other.GVK == s.kind.GVK {
				continue
			}
			obj := decodeAs(t, s.kind, runtime.ContentTypeYAML, s.yaml)
			there, err := m.scheme.ConvertToVersion(obj, other.GVK.GroupVersion())
			if err != nil {
				t.Fatalf("%s to %s: %v", s.name, other.GVK, err)
			}
			back, err := m.scheme.ConvertToVersion(there, other.Hub)
			if err != nil {
				t.Fatalf("%s from %s: %v", s.name, other.GVK, err)
			}
			checkTravel(t, s, "by way of "+other.GVK.GroupVersion().String(), back)
		}
	}
}
