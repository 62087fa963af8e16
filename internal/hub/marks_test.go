package hub_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// copyView copies the ConfigMaps of a location's view to a space, which stands for a cluster, as an agent
// would that knows only that view. It returns when it has copied a named object with a value.
func copyView(ctx context.Context, from, to dynamic.Interface, version *string, name, value string) error {
	target := func(u *unstructured.Unstructured) dynamic.ResourceInterface {
		return to.Resource(configMapsGVR).Namespace(u.GetNamespace())
	}
	last := func(u *unstructured.Unstructured) bool {
		v, _, _ := unstructured.NestedString(u.Object, "data", "k")
		return u.GetName() == name && v == value
	}
	put := func(u *unstructured.Unstructured) error {
		u.SetResourceVersion("")
		_, err := target(u).Create(ctx, u, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = target(u).Update(ctx, u, metav1.UpdateOptions{})
		}
		return err
	}
	if *version == "" {
		list, err := from.Resource(configMapsGVR).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		*version = list.GetResourceVersion()
		there := false
		for i := range list.Items {
			if err := put(&list.Items[i]); err != nil {
				return err
			}
			there = there || last(&list.Items[i])
		}
		if there {
			return nil
		}
	}
	watching, err := from.Resource(configMapsGVR).Watch(ctx, metav1.ListOptions{ResourceVersion: *version})
	if err != nil {
		return err
	}
	defer watching.Stop()
	for e := range watching.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("watch: %+v", e.Object)
		}
		*version = u.GetResourceVersion()
		switch e.Type {
		case watch.Added, watch.Modified:
			err = put(u)
		case watch.Deleted:
			err = target(u).Delete(ctx, u.GetName(), metav1.DeleteOptions{})
		}
		if err != nil || last(u) && e.Type != watch.Deleted {
			return err
		}
	}
	return fmt.Errorf("the watch has ended: %w", ctx.Err())
}

// TestViewNamesSources: an agent that knows only a location's view creates nothing without a source, also when
// sources change.
func TestViewNamesSources(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.addSpace("s2")
	r.addSpace("cluster")
	r.addPlacement("s2", "p", "x", "app", nil)
	from, err := dynamic.NewForConfig(r.config(route.View("a").String()))
	if err != nil {
		t.Fatal(err)
	}
	to, version, step := r.space("cluster"), "", 0
	add := func(s key.Space, name, value string) {
		t.Helper()
		r.create(s, configMapsGVR, object("v1", "ConfigMap", "default", name, map[string]string{"what": "app"}, map[string]any{"data": map[string]any{"k": value}}))
	}
	remove := func(s key.Space, name string) {
		t.Helper()
		if err := r.space(s).Resource(configMapsGVR).Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	copied := func() {
		t.Helper()
		step++
		add("s2", "step", fmt.Sprint(step))
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if err := copyView(ctx, from, to, &version, "step", fmt.Sprint(step)); err != nil {
			t.Fatal(err)
		}
		remove("s2", "step")
		r.namesSources(to)
	}
	add("s", "twice", "same")
	add("s2", "twice", "same")
	copied()
	remove("s", "one")
	add("s", "one", "1") // the same, made anew
	copied()
	remove("s", "twice") // the other space's takes its place, and is the same
	copied()
	if got := r.sourceOf(to, "twice"); got != "s2" {
		t.Errorf("the object of two spaces is said to be of %s", got)
	}
}

func (r *running) sourceOf(client dynamic.Interface, name string) string {
	r.t.Helper()
	u, err := client.Resource(configMapsGVR).Namespace("default").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return u.GetLabels()["orrery.dev/space"]
}

// namesSources checks that all ConfigMaps that were copied name a source that exists.
func (r *running) namesSources(client dynamic.Interface) {
	r.t.Helper()
	location, err := r.space(key.Root).Resource(locationsGVR).Get(r.t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := client.Resource(configMapsGVR).List(r.t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) < 3 {
		r.t.Fatalf("%d copies: %v", len(all.Items), err)
	}
	for _, u := range all.Items {
		l, a := u.GetLabels(), u.GetAnnotations()
		if l["orrery.dev/location"] != "a."+string(location.GetUID())[:8] || a["orrery.dev/source-kind"] != "ConfigMap" {
			r.t.Errorf("%s has labels %v and annotations %v", u.GetName(), l, a)
			continue
		}
		if u.GetName() == "step" {
			continue // it is gone by now
		}
		source, err := r.space(key.Space(l["orrery.dev/space"])).Resource(configMapsGVR).Namespace(a["orrery.dev/source-namespace"]).
			Get(r.t.Context(), a["orrery.dev/source-name"], metav1.GetOptions{})
		if err != nil || string(source.GetUID()) != a["orrery.dev/source-uid"] {
			r.t.Errorf("the source of %s, %v: %v", u.GetName(), a, err)
		}
	}
}
