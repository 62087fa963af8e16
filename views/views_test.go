package views_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/views"
)

// seen returns an object as a view of all spaces shows it.
func seen(o views.Object) *metav1.ObjectMeta {
	n := o.Seen()
	m := &metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name, Annotations: map[string]string{"orrery.dev/space": o.Space, "orrery.dev/source-name": o.Name}}
	if o.Namespace != "" {
		m.Annotations["orrery.dev/source-namespace"] = o.Namespace
	}
	return m
}

func object(t *rapid.T) views.Object {
	o := views.Object{
		Space: rapid.StringMatching(`[a-z0-9](-?[a-z0-9]){0,3}`).Draw(t, "space"),
		Name:  rapid.StringMatching(`[a-z0-9:.-]{1,6}`).Draw(t, "name"),
	}
	if rapid.Bool().Draw(t, "namespaced") {
		o.Namespace = rapid.StringMatching(`[a-z0-9](-{0,3}[a-z0-9]){0,3}`).Draw(t, "namespace")
	}
	return o
}

// TestNames: the identity of an object in its space depends only on the metadata in a view and its
// name there, and different objects have different names.
func TestNames(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		o, other := object(t), object(t)
		if got, ok := views.Named(o.Seen()); !ok || got != o {
			t.Fatalf("%+v is called %s, which is %+v %v", o, o.Seen(), got, ok)
		}
		if got, ok := views.ObjectOf(seen(o)); !ok || got != o {
			t.Fatalf("%+v is read as %+v %v", o, got, ok)
		}
		if o != other && o.Seen() == other.Seen() {
			t.Fatalf("%+v and %+v are both called %s", o, other, o.Seen())
		}
	})
}

// TestReadElsewhere: objects that were not read from a view of all spaces are rejected.
func TestReadElsewhere(t *testing.T) {
	for _, m := range []*metav1.ObjectMeta{
		{Name: "x", Namespace: "default"},
		{Name: "x", Namespace: "a--default"},
		{Name: "x", Namespace: "default", Annotations: map[string]string{"orrery.dev/space": "a", "orrery.dev/source-namespace": "default", "orrery.dev/source-name": "x"}},
		{Name: "x", Namespace: "a--default", Annotations: map[string]string{"orrery.dev/space": "b", "orrery.dev/source-namespace": "default", "orrery.dev/source-name": "x"}},
		{Name: "x"},
	} {
		if o, ok := views.ObjectOf(m); ok {
			t.Errorf("%+v is %+v", m, o)
		}
	}
	for _, n := range []types.NamespacedName{{}, {Name: "x"}, {Namespace: "a--n"}, {Namespace: "--n", Name: "x"}, {Namespace: "a--", Name: "x"}, {Name: "A--x"}} {
		if o, ok := views.Named(n); ok {
			t.Errorf("%q is %+v", n, o)
		}
	}
}

func TestOwners(t *testing.T) {
	secret, node := seen(views.Object{Space: "a", Namespace: "default", Name: "s"}), seen(views.Object{Space: "a", Name: "n"})
	for _, c := range []struct {
		owned      *metav1.ObjectMeta
		name       string
		namespaced bool
		want       views.Object
		ok         bool
	}{
		{secret, "x", true, views.Object{Space: "a", Namespace: "default", Name: "x"}, true},
		{secret, "a--x", false, views.Object{Space: "a", Name: "x"}, true},
		{secret, "b--x", false, views.Object{}, false},
		{secret, "x", false, views.Object{}, false},
		{node, "a--x", false, views.Object{Space: "a", Name: "x"}, true},
		{node, "x", true, views.Object{}, false},
		{&metav1.ObjectMeta{Namespace: "default", Name: "s"}, "x", true, views.Object{}, false},
	} {
		got, ok := views.Owner(c.owned, metav1.OwnerReference{Name: c.name}, c.namespaced)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("the owner %s of %s/%s, namespaced %v: %+v %v, want %+v %v", c.name, c.owned.Namespace, c.owned.Name, c.namespaced, got, ok, c.want, c.ok)
		}
	}
	node.UID = "u"
	kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Node"}
	want := metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "Node", Name: "n", UID: "u"}
	if got := views.Reference(node, kind); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := views.Reference(&metav1.ObjectMeta{Name: "n", UID: "u"}, kind); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestConfig(t *testing.T) {
	hub := &rest.Config{Host: "https://hub.example:8443/orrery/", BearerToken: "t"}
	for _, c := range []struct {
		view        views.View
		space, path string
	}{
		{views.Export("p", "clusters"), views.AllSpaces, "/views/exports/p/clusters/spaces/*"},
		{views.Export("p", "clusters"), "c", "/views/exports/p/clusters/spaces/c"},
		{views.Slice("p", "classes", "a"), views.AllSpaces, "/views/slices/p/classes/values/a/spaces/*"},
		{views.Rest("p", "classes"), "c", "/views/slices/p/classes/rest/spaces/c"},
	} {
		got := c.view.Config(hub, c.space)
		if got.Host != "https://hub.example:8443/orrery"+c.path || got.BearerToken != "t" || hub.Host != "https://hub.example:8443/orrery/" {
			t.Errorf("%s: %s", c.path, got.Host)
		}
		for _, given := range []*rest.Config{got, c.view.Config(hub, views.AllSpaces)} {
			if in, err := views.In(given, c.space); err != nil || in.Host != got.Host || in.BearerToken != "t" {
				t.Errorf("%s in %q: %+v, %v", given.Host, c.space, in, err)
			}
		}
	}
	for _, host := range []string{"", "https://hub/spaces/p", "https://hub/views/exports/p/spaces/c", "https://hub/views/slices/p/v/values/spaces/c", "https://hub/views/exports/p/e/locations/c"} {
		if in, err := views.In(&rest.Config{Host: host}, "c"); err == nil {
			t.Errorf("%q is %s", host, in.Host)
		}
	}
}
