package ownership

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// of is an object that has all marks of an owner.
func of(l Owner) *Meta {
	return &Meta{
		Name: "a", Namespace: "n", UID: "u", ResourceVersion: "7",
		Labels: map[string]string{v1alpha1.LocationLabel: string(l), v1alpha1.SpaceLabel: "s"},
		Annotations: map[string]string{
			v1alpha1.SourceKindAnnotation: "ConfigMap", v1alpha1.SourceNamespaceAnnotation: "n", v1alpha1.SourceNameAnnotation: "a",
			v1alpha1.SourceUIDAnnotation: "x",
		},
		ManagedFields: []ManagedFields{
			{Manager: l.Manager(), Operation: "Apply", APIVersion: "v1", FieldsV1: json.RawMessage(`{"f:data":{}}`)},
			{Manager: l.Manager(), Operation: "Update", APIVersion: "v1", FieldsV1: json.RawMessage(`{"f:metadata":{}}`)},
			{Manager: "kubectl", Operation: "Update", APIVersion: "v1"},
		},
	}
}

var configMaps = Kind{Resource: key.NewResource("", "configmaps"), Name: "ConfigMap"}

const (
	first  = Owner("edge.11111111")
	second = Owner("edge.22222222")
	third  = Owner("plant.33333333")
)

// after is the object that a patch has changed, as an API server merges it.
func after(t *testing.T, m *Meta, patch any) *Meta {
	t.Helper()
	b, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Metadata struct {
			UID, ResourceVersion string
			Labels, Annotations  map[string]string
			ManagedFields        []ManagedFields
		}
	}
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	if p.Metadata.UID != m.UID || p.Metadata.ResourceVersion != m.ResourceVersion || strings.Contains(string(b), `"data"`) {
		t.Errorf("the patch is %s", b)
	}
	next := *m
	next.ManagedFields = p.Metadata.ManagedFields
	maps.Copy(next.Labels, p.Metadata.Labels)
	maps.Copy(next.Annotations, p.Metadata.Annotations)
	return &next
}

// TestSucceed shows that what was taken over is the new owner's alone, and names the former
// ones, whose agents know by that who has it.
func TestSucceed(t *testing.T) {
	m := of(first)
	if by := m.Successor(first, configMaps); by != "" {
		t.Errorf("it has a successor %s at once", by)
	}
	fields := m.Fields(first)
	m = after(t, m, Succeed(m, first, second))
	if m.ProvesAny([]Owner{third, second}, configMaps) != second || m.ProvesAny([]Owner{first, third}, configMaps) != "" {
		t.Errorf("it proves to be of another: %+v", m)
	}
	if m.Written(first) || !m.Written(second) || m.Fields(second) != fields || len(m.ManagedFields) != 2 {
		t.Errorf("its managed fields are %+v", m.ManagedFields)
	}
	if m.Successor(first, configMaps) != second || m.Successor(second, configMaps) != "" || m.Successor(third, configMaps) != "" {
		t.Errorf("its successors are wrong: %v", m.TakenFrom())
	}
	m = after(t, m, Succeed(m, second, third))
	if m.Successor(first, configMaps) != third || m.Successor(second, configMaps) != third || m.Successor(third, configMaps) != "" {
		t.Errorf("its successors are wrong: %v", m.TakenFrom())
	}
	// It may go back, as when a hub was restored.
	m = after(t, m, Succeed(m, third, second))
	if m.Successor(third, configMaps) != second || m.Successor(second, configMaps) != "" {
		t.Errorf("its successors are wrong: %v", m.TakenFrom())
	}
}

// TestNoSuccessor shows what does not make an agent believe that it was succeeded.
func TestNoSuccessor(t *testing.T) {
	for name, change := range map[string]func(*Meta){
		"the label alone":   func(m *Meta) { delete(m.Annotations, v1alpha1.TakenFromAnnotation) },
		"of another":        func(m *Meta) { m.Annotations[v1alpha1.TakenFromAnnotation] = string(third) },
		"a copy":            func(m *Meta) { m.Name = "b" },
		"never written":     func(m *Meta) { m.ManagedFields = m.ManagedFields[len(m.ManagedFields)-1:] },
		"without the label": func(m *Meta) { delete(m.Labels, v1alpha1.LocationLabel) },
	} {
		m := of(first)
		m = after(t, m, Succeed(m, first, second))
		if change(m); m.Successor(first, configMaps) != "" {
			t.Errorf("%s: %s", name, m.Successor(first, configMaps))
		}
	}
}

func TestLetGoForgetsWhoHadIt(t *testing.T) {
	m := of(first)
	b, err := json.Marshal(LetGo(after(t, m, Succeed(m, first, second)), second))
	if err != nil || !strings.Contains(string(b), `"`+v1alpha1.TakenFromAnnotation+`":null`) {
		t.Errorf("%s, %v", b, err)
	}
}
