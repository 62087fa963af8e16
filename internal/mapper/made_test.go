package mapper

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestMade is about what managed fields prove, as kube-apiserver notes them.
func TestMade(t *testing.T) {
	const born, before, long = "2026-01-02T03:04:05Z", "2026-01-02T03:04:04Z", "2026-01-01T03:04:05Z"
	ours := func(at, fields string) managedFields {
		return managedFields{Manager: "orrery/edge.0a1b2c3d", Operation: applyOperation, Time: at, FieldsV1: json.RawMessage(fields)}
	}
	theirs := func(operation, fields string) managedFields {
		return managedFields{Manager: "kubectl", Operation: operation, Time: born, FieldsV1: json.RawMessage(fields)}
	}
	const data, more = `{"f:data":{".":{},"f:v":{}}}`, `{"f:data":{"f:w":{}}}`
	status := theirs("Update", data)
	status.Subresource = "status"
	for name, c := range map[string]struct {
		meta objectMeta
		want bool
	}{
		"made":                    {objectMeta{ManagedFields: []managedFields{ours(born, data)}}, true},
		"made slowly":             {objectMeta{ManagedFields: []managedFields{ours(before, data)}}, false},
		"with others' additions":  {objectMeta{ManagedFields: []managedFields{ours(born, data), theirs("Update", more), status}}, true},
		"with a mark":             {objectMeta{Labels: map[string]string{locationLabel: "edge.0a1b2c3d"}, ManagedFields: []managedFields{ours(born, data)}}, true},
		"with another's mark":     {objectMeta{Labels: map[string]string{locationLabel: "rome.0a1b2c3d"}, ManagedFields: []managedFields{ours(born, data)}}, false},
		"with a mark of its copy": {objectMeta{Annotations: map[string]string{v1alpha1.SourceNameAnnotation: "b"}, ManagedFields: []managedFields{ours(born, data)}}, false},
		"of a controller":         {objectMeta{OwnerReferences: []ownerReference{{Controller: true}}, ManagedFields: []managedFields{ours(born, data)}}, false},
		"restored":                {objectMeta{ManagedFields: []managedFields{ours(long, data)}}, false},
		"copied":                  {objectMeta{ManagedFields: []managedFields{ours(born, data), theirs("Update", data)}}, false},
		"applied by others":       {objectMeta{ManagedFields: []managedFields{ours(born, data), theirs("Apply", data)}}, false},
		"adopted":                 {objectMeta{ManagedFields: []managedFields{ours("2026-01-02T03:04:06Z", data), theirs("Update", more)}}, false},
		"others'":                 {objectMeta{ManagedFields: []managedFields{theirs("Apply", data)}}, false},
		"nobody's":                {objectMeta{}, false},
	} {
		c.meta.Name, c.meta.CreationTimestamp = "a", born
		if got := c.meta.made("edge.0a1b2c3d", "ConfigMap"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestModelMade has an agent die between the making of an object and the record of
// it. Somebody takes its marks meanwhile. It is known by its managed fields.
func TestModelMade(t *testing.T) {
	for mark := range 2 {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, dir)
			defer w.stop(true)
			id := identities[2]
			w.line.last = 2 // the namespace, and the object
			w.edit(id, 7, 1)
			<-time.After(time.Second)
			if !w.line.dead.Load() {
				t.Fatal("the agent is alive")
			}
			uid := w.cluster.objects[id.String()].uid
			w.tamper(id, 1+mark, 0)
			w.start(w.stop(false))
			if err := w.settle(true); err != nil {
				t.Error(err)
			}
			if now := w.cluster.objects[id.String()].uid; now != uid {
				t.Error("it is another object")
			}
		})
	}
}
