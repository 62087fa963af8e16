package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// Invariants waits until the four invariants hold at every site, by listing
// both sides.
func (w *World) Invariants() {
	w.T.Helper()
	w.Eventually("invariants hold", func() error {
		for _, name := range slices.Sorted(maps.Keys(w.Sites)) {
			if err := w.Sites[name].invariants(w); err != nil {
				return fmt.Errorf("location %s: %w", name, err)
			}
		}
		return nil
	})
}

func (s *Site) invariants(w *World) error {
	desired, err := ListAll(w.T.Context(), w.Hub.PathConfig("views/locations/"+s.Name), "")
	if err != nil {
		return fmt.Errorf("list what it is to have: %w", err)
	}
	actual, err := s.Marked(w)
	if err != nil {
		return err
	}
	var all []error
	for k, d := range desired {
		a := actual[k]
		if a == nil { // 1
			all = append(all, fmt.Errorf("%s is assigned and not there", k))
			continue
		}
		if diff := Missing(d.Object, a.Object); diff != "" {
			all = append(all, fmt.Errorf("%s differs: %s", k, diff))
		}
	}
	for k, a := range actual {
		if desired[k] == nil { // 4
			all = append(all, fmt.Errorf("%s is there and not assigned", k))
		}
		if err := w.sourceExists(a); err != nil { // 2
			all = append(all, fmt.Errorf("%s: %w", k, err))
		}
	}
	return errors.Join(all...)
}

// Marked returns all objects at a site with valid ownership metadata of Orrery.
func (s *Site) Marked(w *World) (Listed, error) {
	uid, err := w.LocationUID(s.Name)
	if err != nil {
		return nil, err
	}
	labelled, err := ListAll(w.T.Context(), s.Cluster.Config, "orrery.dev/location="+s.Name+"."+uid[:8])
	if err != nil {
		return nil, fmt.Errorf("list the objects of location %q: %w", s.Name, err)
	}
	maps.DeleteFunc(labelled, func(_ string, u *unstructured.Unstructured) bool { return !Proven(u) })
	return labelled, nil
}

// Proven reports whether the ownership metadata of an object is its own: controllers copy labels to other
// objects.
func Proven(u *unstructured.Unstructured) bool {
	a, space := u.GetAnnotations(), u.GetLabels()["orrery.dev/space"]
	name, namespace := a["orrery.dev/source-name"], a["orrery.dev/source-namespace"]
	isMapped := func(mapped string) bool { return mapped == space+"--"+namespace || mapped == space+"--"+name }
	same := name == u.GetName() && namespace == u.GetNamespace()
	prefixed := namespace != "" && name == u.GetName() && isMapped(u.GetNamespace()) || namespace == "" && u.GetNamespace() == "" && isMapped(u.GetName())
	return a["orrery.dev/source-kind"] == u.GetKind() && (same || prefixed) && metav1.GetControllerOf(u) == nil
}

// sourceExists checks that the source in the space exists that the ownership metadata names.
func (w *World) sourceExists(a *unstructured.Unstructured) error {
	space := a.GetLabels()["orrery.dev/space"]
	if space == "" {
		return errors.New("has no label of its space")
	}
	config := w.Hub.PathConfig("spaces/" + space)
	gvr, namespaced, err := resourceOf(config, a.GroupVersionKind())
	if err != nil {
		return err
	}
	namespace := ""
	if namespaced {
		namespace = a.GetAnnotations()["orrery.dev/source-namespace"]
	}
	source, err := In(Dynamic(w.T, config), gvr, namespace).Get(context.WithoutCancel(w.T.Context()), a.GetAnnotations()["orrery.dev/source-name"], metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("its source: %w", err)
	}
	if uid := a.GetAnnotations()["orrery.dev/source-uid"]; uid != string(source.GetUID()) {
		return fmt.Errorf("names source UID %q, the source has %q", uid, source.GetUID())
	}
	return nil
}

func resourceOf(c *rest.Config, gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	list, err := client.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			return gvk.GroupVersion().WithResource(r.Name), r.Namespaced, nil
		}
	}
	return schema.GroupVersionResource{}, false, fmt.Errorf("%s has no %s", c.Host, gvk)
}
