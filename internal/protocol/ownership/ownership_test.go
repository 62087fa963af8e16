package ownership

import (
	"encoding/json"
	"errors"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

func TestOthersFields(t *testing.T) {
	const self = Owner("edge.0a1b2c3d")
	ours := ManagedFields{Manager: self.Manager(), Operation: "Apply"}
	other := ManagedFields{Manager: "kubectl", Operation: "Update", Time: "2030-01-02T03:04:05Z", FieldsType: "FieldsV1", FieldsV1: json.RawMessage(`{}`)}
	if got := othersFields([]ManagedFields{ours, other}, self); len(got) != 1 || got[0].Manager != "kubectl" {
		t.Errorf("got %+v", got)
	}
	b, err := json.Marshal(orNone(othersFields([]ManagedFields{ours}, self)))
	if err != nil || string(b) != "[{}]" {
		t.Errorf("none is %s: %v", b, err)
	}
}

func TestAnotherLocation(t *testing.T) {
	for label, want := range map[string]bool{"": false, "edge.0a1b2c3d": false, "edge.ffffffff": false, "other.0a1b2c3d": true, "edge2.0a1b2c3d": true} {
		if got := AnotherLocation(label, "edge.0a1b2c3d"); got != want {
			t.Errorf("%q: %v", label, got)
		}
	}
}

func TestMarksOnly(t *testing.T) {
	o, err := key.ParsePath("s/core/configmaps/n/a")
	if err != nil {
		t.Fatal(err)
	}
	body, err := ApplyBody([]byte(`{"apiVersion":"v1","data":{"x":"y"},"kind":"ConfigMap","metadata":{"labels":{"a.b/c":"d"},"name":"a","namespace":"n"}}`),
		"edge.0a1b2c3d", key.Located{Object: o}, Origin{UID: "u", Orphan: true}, "f")
	if err != nil {
		t.Fatal(err)
	}
	if body, err = Only(body); err != nil {
		t.Fatal(err)
	}
	var got Observation
	var all map[string]any
	if err := errors.Join(json.Unmarshal(body, &got), json.Unmarshal(body, &all)); err != nil {
		t.Fatal(err)
	}
	if _, ours := got.Metadata.ProvesOurs("edge.0a1b2c3d", configMaps); !ours || len(got.Metadata.Labels) != 2 || got.Metadata.UID != "f" || len(all) != 3 {
		t.Errorf("got %s", body)
	}
	if !got.Metadata.Orphan() {
		t.Errorf("it does not say that it is to stay: %s", body)
	}
}

func TestReleasedIsSeen(t *testing.T) {
	m := Meta{ManagedFields: []ManagedFields{
		{Manager: "orrery/edge.0a1b2c3d", Operation: "Update"},
		{Manager: ReleasedManager, Operation: "Update"}, {Manager: ReleasedManager, Operation: "Apply", Subresource: "scale"},
	}}
	if m.Released() {
		t.Error("other entries of that name count")
	}
	if m.ManagedFields = append(m.ManagedFields, ManagedFields{Manager: ReleasedManager, Operation: "Apply"}); !m.Released() {
		t.Error("its entry does not count")
	}
	if left := othersFields(m.ManagedFields, "edge.0a1b2c3d"); len(left) != 2 {
		t.Errorf("an object that is let go keeps %+v", left)
	}
}
