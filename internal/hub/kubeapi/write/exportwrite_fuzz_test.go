package write

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// fuzzedWrite returns the exportWrite for a name in the view of all spaces, or nil if no object can
// have that name.
func fuzzedWrite(namespaced bool, namespace, name string) *exportWrite {
	resource := key.NewResource("example.com", "racks")
	w := &exportRequest{
		ExportViewScope: ExportViewScope{Space: key.AllSpaces, Clustered: []schema.GroupKind{{Group: "example.com", Kind: "Rack"}, {Kind: "Namespace"}}},
		kind: &kinds.Kind{Resource: resource, Namespaced: namespaced, GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rack"},
			GVR: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "racks"}},
	}
	c, ok := w.names().Split(namespaced, namespace, name)
	if !ok || c.Space == "" || name == "" {
		return nil
	}
	p := &exportWrite{exportRequest: w, space: c.Space, namespace: c.Namespace, name: c.Name}
	p.called.namespace, p.called.name = namespace, name
	return p
}

// FuzzThrough checks the names of objects in a view of all spaces. An object that a client reads and
// sends back equals the stored object. A written object, and its owners, belong to the space and name
// of the request.
func FuzzThrough(f *testing.F) {
	const owner = `{"apiVersion":"example.com/v1","kind":"Rack","name":"r","uid":"1"}`
	for _, seed := range []struct {
		namespaced             bool
		space, namespace, name string
		stored, sent           string
	}{
		{true, "a", "default", "w", `{}`, `{"name":"w","namespace":"a--default"}`},
		{false, "a", "", "r", `{"annotations":{"k":"v"}}`, `{"name":"a--r"}`},
		{false, "a", "", "r", `{"annotations":{"orrery.dev/space":"mine","orrery.dev/source-name":"x"}}`, `{"name":"a--r","annotations":{"orrery.dev/space":"b"}}`},
		{true, "a", "n--m", "a--w", `{"ownerReferences":[` + owner + `]}`, `{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Rack","name":"b--r","uid":"1"}]}`},
		{true, "a", "n", "w", `{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"a--a","uid":"1"},{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"2"}]}`, `{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"n"}]}`},
		{true, "a", "n", "w", `{"annotations":{}}`, `{"annotations":null,"ownerReferences":null}`},
		{false, "a-b", "", "-r", `{}`, `{"name":"b--r"}`},
		{false, "a", "", "r", `{}`, `{"name":"r"}`},
		{false, "a", "", "r", `{}`, `{"generateName":"a--r"}`},
		{true, "a", "n", "w", `{}`, `{"name":1,"annotations":[],"ownerReferences":{"apiVersion":"a/b/c"}}`},
		{true, "a", "n", "w", `{}`, "\xff"},
	} {
		f.Add(seed.namespaced, seed.space, seed.namespace, seed.name, []byte(seed.stored), []byte(seed.sent))
	}
	f.Fuzz(func(t *testing.T, namespaced bool, space, namespace, name string, stored, sent []byte) {
		// A name in the view belongs to one object at most, which has that name.
		for _, called := range [][2]string{{namespace, name}, {space + "--" + namespace, name}, {"", space + "--" + name}} {
			if p := fuzzedWrite(namespaced, called[0], called[1]); p != nil {
				o := key.Object{Space: p.space, Identity: key.Identity{Name: p.name}}
				if namespaced {
					o.Namespace = p.namespace
				}
				if ns, n := p.names().ObjectName("", o); n != called[1] || namespaced && ns != called[0] || key.ValidateName(string(p.space)) != nil {
					t.Fatalf("%q leads to %+v, which is called %q %q", called, o, ns, n)
				}
			}
		}
		if key.ValidateName(space) != nil || name == "" || namespaced == (namespace == "") {
			return
		}
		ns, called := key.Wide{Spaces: true}.ObjectName("", key.Object{Space: key.Space(space), Identity: key.Identity{Namespace: namespace, Name: name}})
		p := fuzzedWrite(namespaced, ns, called)
		if p == nil || string(p.space) != space || p.namespace != namespace || p.name != name {
			t.Fatalf("%q of %q in %q is called %q %q, which is %+v", name, namespace, space, ns, called, p)
		}
		original := fuzzedObject(stored)
		original.SetName(name)
		original.SetNamespace(namespace)
		p.returns(t, original)
		p.receives(t, original, fuzzedObject(sent))
		p.namesErrors(t)
		p.applies(t, sent)
	})
}

// fuzzedObject returns an object with the decoded metadata.
func fuzzedObject(data []byte) *unstructured.Unstructured {
	var m metav1.ObjectMeta
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Rack"}}
	if json.Unmarshal(data, &m) != nil {
		return u
	}
	u.SetName(m.Name)
	u.SetNamespace(m.Namespace)
	u.SetGenerateName(m.GenerateName)
	u.SetAnnotations(m.Annotations)
	if len(m.OwnerReferences) > 0 {
		u.SetOwnerReferences(m.OwnerReferences)
	}
	return u
}

// returns checks that an object that is read and sent back is unchanged.
func (p *exportWrite) returns(t *testing.T, original *unstructured.Unstructured) {
	if slices.ContainsFunc(original.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Name == "" }) {
		return // can't be stored
	}
	shown := original.DeepCopy()
	if err := p.widen(shown); err != nil {
		t.Fatal(err)
	}
	if p.kind.Namespaced && shown.GetNamespace() != p.called.namespace || shown.GetName() != p.called.name {
		t.Fatalf("is called %q %q, want %q %q", shown.GetNamespace(), shown.GetName(), p.called.namespace, p.called.name)
	}
	if err := p.narrow(shown, original); err != nil {
		t.Fatalf("the exported view of %v is refused as a write: %v", original, err)
	}
	if !reflect.DeepEqual(shown.Object, original.Object) {
		t.Fatalf("%v came back as %v", original.Object, shown.Object)
	}
}

// receives checks that an object is written under the requested name, or refused.
func (p *exportWrite) receives(t *testing.T, original, sent *unstructured.Unstructured) {
	got := sent.DeepCopy()
	if p.narrow(got, original) != nil {
		return
	}
	if name, ns := got.GetName(), got.GetNamespace(); p.kind.Namespaced && ns != "" && ns != p.namespace || !p.kind.Namespaced && name != "" && name != p.name {
		t.Fatalf("%v is for %q %q", sent.Object, ns, name)
	}
	for i, o := range got.GetOwnerReferences() {
		if owner := sent.GetOwnerReferences()[i]; p.clustered(owner) && owner.Name != string(p.space)+"--"+o.Name || !p.clustered(owner) && owner.Name != o.Name {
			t.Fatalf("%v is owned by %v", sent.Object, o)
		}
	}
	for k, v := range got.GetAnnotations() {
		from := sent
		if isCoordinate(k) {
			from = original
		}
		if value, ok := from.GetAnnotations()[k]; !ok || value != v {
			t.Fatalf("annotation %q of %v became %q", k, sent.Object, v)
		}
	}
}

// namesErrors checks that errors contain the names of the request.
func (p *exportWrite) namesErrors(t *testing.T) {
	err := p.rename(apierrors.NewNotFound(p.kind.GVR.GroupResource(), p.name))
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Details.Name != p.called.name && !p.kind.Namespaced {
		t.Fatalf("%v: %+v", p.called, err)
	}
	field, value := "metadata.name", p.called.name
	want := p.name
	if p.kind.Namespaced {
		field, value, want = "metadata.namespace", p.called.namespace, p.namespace
	}
	if _, got, err := p.narrowField(field, value); err != nil || got != want {
		t.Fatalf("selected by %s=%s: %q, %v", field, value, got, err)
	}
}

// applies checks that only the coordinates of an applied object are removed.
func (p *exportWrite) applies(t *testing.T, metadata []byte) {
	data := []byte(`{"metadata":` + string(metadata) + `}`)
	plain := withoutCoordinates(data)
	var original, now map[string]any
	if yaml.UnmarshalStrict(data, &original) != nil {
		if !bytes.Equal(data, plain) {
			t.Fatalf("%q became %q", data, plain)
		}
		return
	}
	m, _ := original["metadata"].(map[string]any)
	annotations, _ := m["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(k string, _ any) bool { return isCoordinate(k) })
	if err := yaml.UnmarshalStrict(plain, &now); err != nil || !reflect.DeepEqual(original, now) {
		t.Fatalf("%q became %q: %v", data, plain, err)
	}
}
