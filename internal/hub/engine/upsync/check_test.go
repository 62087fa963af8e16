package upsync

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// shown is an object as a cluster shows it under an identity.
func shown(t testing.TB, kind string, identity key.Identity, metadata map[string]any) []byte {
	t.Helper()
	all := map[string]any{"name": identity.Name, "uid": "u"}
	if identity.Namespace != "" {
		all["namespace"] = identity.Namespace
	}
	maps.Copy(all, metadata)
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": all})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// agrees compares what the hub says of an object, which a cluster has under the name that a
// location gives it, with what the agent does: what it takes for placed it does not report.
func agrees(t testing.TB, placing key.Placing, o key.Object, kind string, metadata map[string]any) (placed bool) {
	t.Helper()
	var seen ownership.Answer
	if err := seen.UnmarshalJSON(shown(t, kind, placing.TargetIdentity(o), metadata)); err != nil {
		t.Fatal(err)
	}
	placed = seen.Metadata.Anybodys(o.Resource, kind)
	for origin, owner := range map[key.Origin]string{key.Upsynced: "", key.Owned: "apps/deployments/n/web"} {
		report := &wire.Report{State: wire.Present, UID: "u", Owner: owner, Object: shown(t, kind, o.Identity, metadata)}
		err := Check(key.Report{Location: "l", Origin: origin, Object: o}, report, placing)
		if refused := err != nil && strings.Contains(err.Error(), "placed it"); refused != placed || err != nil && !refused {
			t.Errorf("%s %s %s with %v: the agent takes it for placed: %v, the hub says: %v", placing, origin, o.Path(), metadata, placed, err)
		}
	}
	return placed
}

// TestMarksAreRead: hub and agents have one rule for placed objects. An object with the ownership
// metadata of an agent of any location is never upsynced; an object with similar metadata is.
func TestMarksAreRead(t *testing.T) {
	object := func(resource key.Resource, namespace, name string) key.Object {
		return key.Object{Space: "s", Identity: key.Identity{Resource: resource, Namespace: namespace, Name: name}}
	}
	one, namespace := object(key.ConfigMaps, "n", "one"), object(key.Namespaces, "", "n")
	controller := []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}}
	for _, placing := range []key.Placing{key.Same, key.Prefixed} {
		// As an agent applies it.
		body, err := ownership.ApplyBody([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"n"}}`), "berlin.0a1b2c3d", placing.Locate(one), ownership.Origin{UID: "source"}, "")
		if err != nil {
			t.Fatal(err)
		}
		var applied struct {
			Metadata struct{ Labels, Annotations map[string]any }
		}
		if err := json.Unmarshal(body, &applied); err != nil {
			t.Fatal(err)
		}
		marked := func(change func(labels, annotations map[string]any)) map[string]any {
			labels, annotations := maps.Clone(applied.Metadata.Labels), maps.Clone(applied.Metadata.Annotations)
			change(labels, annotations)
			return map[string]any{"labels": labels, "annotations": annotations}
		}
		as := func(map[string]any, map[string]any) {}
		for what, c := range map[string]struct {
			object   key.Object
			metadata map[string]any
			placed   bool
		}{
			"as it was applied":         {one, marked(as), true},
			"under another name":        {object(key.ConfigMaps, "n", "two"), marked(as), false},
			"in another namespace":      {object(key.ConfigMaps, "m", "one"), marked(as), false},
			"without the UID":           {one, marked(func(_, a map[string]any) { delete(a, v1alpha1.SourceUIDAnnotation) }), false},
			"of another kind":           {one, marked(func(_, a map[string]any) { a[v1alpha1.SourceKindAnnotation] = "Secret" }), false},
			"of no location":            {one, marked(func(l, _ map[string]any) { l[v1alpha1.LocationLabel] = "berlin" }), false},
			"the labels alone":          {one, map[string]any{"labels": applied.Metadata.Labels}, false},
			"a namespace for others":    {namespace, map[string]any{"annotations": map[string]any{v1alpha1.ImpliedAnnotation: "berlin.0a1b2c3d"}}, true},
			"another's of that mark":    {one, map[string]any{"annotations": map[string]any{v1alpha1.ImpliedAnnotation: "berlin.0a1b2c3d"}}, false},
			"made by a controller":      {one, map[string]any{"labels": applied.Metadata.Labels, "annotations": applied.Metadata.Annotations, "ownerReferences": controller}, false},
			"of which nothing is known": {one, nil, false},
		} {
			kind := "ConfigMap"
			if c.object == namespace {
				kind = "Namespace"
			}
			if got := agrees(t, placing, c.object, kind, c.metadata); got != c.placed {
				t.Errorf("%s: %s is taken for placed: %v", placing, what, got)
			}
		}
	}
	seeds.Check(t, func(r *rapid.T) {
		some := func(what string, values map[string][]string) map[string]any {
			all := map[string]any{}
			for k, values := range seeds.Ordered(values) {
				if v := rapid.SampledFrom(append([]string{""}, values...)).Draw(r, what+" "+k); v != "" {
					all[k] = v
				}
			}
			return all
		}
		metadata := map[string]any{
			"labels": some("label", map[string][]string{v1alpha1.LocationLabel: {"berlin.0a1b2c3d", "berlin.0a1b2c3d", "x"}, v1alpha1.SpaceLabel: {"s", "s", "t", "S!"}}),
			"annotations": some("annotation", map[string][]string{
				v1alpha1.SourceKindAnnotation: {"ConfigMap", "Secret"}, v1alpha1.SourceUIDAnnotation: {"u", "v"}, v1alpha1.SourceNamespaceAnnotation: {"n", "n", "m"},
				v1alpha1.SourceNameAnnotation: {"one", "one", "two"}, v1alpha1.ImpliedAnnotation: {"x"},
			}),
		}
		if rapid.IntRange(0, 3).Draw(r, "controlled") == 0 {
			metadata["ownerReferences"] = controller
		}
		agrees(t, rapid.SampledFrom([]key.Placing{key.Same, key.Prefixed}).Draw(r, "placing"), one, "ConfigMap", metadata)
	})
}
