package ownership

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// of returns an object that has all ownership metadata of an owner.
func owned(l Owner) *Meta {
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

// after returns an object to which an API server has applied a merge patch.
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

// TestSucceed: an object that was taken over belongs only to the new owner. It names the former
// owners, whose agents recognize the takeover by that.
func TestSucceed(t *testing.T) {
	m := owned(first)
	if successor := m.Successor(first, configMaps); successor != "" {
		t.Errorf("it has a successor %s at once", successor)
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
	// The object may return to a former owner, for example after a hub was restored.
	m = after(t, m, Succeed(m, third, second))
	if m.Successor(third, configMaps) != second || m.Successor(second, configMaps) != "" {
		t.Errorf("its successors are wrong: %v", m.TakenFrom())
	}
}

// TestNoSuccessor lists metadata that an agent must not accept as a takeover.
func TestNoSuccessor(t *testing.T) {
	for name, change := range map[string]func(*Meta){
		"the label alone":   func(m *Meta) { delete(m.Annotations, v1alpha1.TakenFromAnnotation) },
		"of another":        func(m *Meta) { m.Annotations[v1alpha1.TakenFromAnnotation] = string(third) },
		"a copy":            func(m *Meta) { m.Name = "b" },
		"never written":     func(m *Meta) { m.ManagedFields = m.ManagedFields[len(m.ManagedFields)-1:] },
		"without the label": func(m *Meta) { delete(m.Labels, v1alpha1.LocationLabel) },
	} {
		m := owned(first)
		m = after(t, m, Succeed(m, first, second))
		if change(m); m.Successor(first, configMaps) != "" {
			t.Errorf("%s: %s", name, m.Successor(first, configMaps))
		}
	}
}

func TestLetGoForgetsWhoHadIt(t *testing.T) {
	m := owned(first)
	b, err := json.Marshal(LetGo(after(t, m, Succeed(m, first, second)), second))
	if err != nil || !strings.Contains(string(b), `"`+v1alpha1.TakenFromAnnotation+`":null`) {
		t.Errorf("%s, %v", b, err)
	}
}
