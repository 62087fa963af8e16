package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// listed is every object of an API, by what it is called there.
type listed map[string]*unstructured.Unstructured

// invariants waits until the four invariants hold at every site, by listing
// both sides.
func (w *world) invariants() {
	w.t.Helper()
	w.eventually("invariants hold", func() error {
		for _, name := range slices.Sorted(maps.Keys(w.sites)) {
			if err := w.sites[name].invariants(w); err != nil {
				return fmt.Errorf("location %s: %w", name, err)
			}
		}
		return nil
	})
}

func (s *site) invariants(w *world) error {
	desired, err := listAll(w.t.Context(), w.hub.PathConfig("views/locations/"+s.name), "")
	if err != nil {
		return fmt.Errorf("list what it is to have: %w", err)
	}
	uid, err := w.locationUID(s.name)
	if err != nil {
		return err
	}
	mark := s.name + "." + uid[:8]
	labelled, err := listAll(w.t.Context(), s.cluster.Config, "orrery.dev/location="+mark)
	if err != nil {
		return fmt.Errorf("list what it has: %w", err)
	}
	actual := listed{}
	for k, u := range labelled {
		if proven(u) {
			actual[k] = u
		}
	}
	var all []error
	for k, d := range desired {
		a := actual[k]
		if a == nil { // 1
			all = append(all, fmt.Errorf("%s is assigned and not there", k))
			continue
		}
		if diff := missing(d.Object, a.Object, ""); diff != "" {
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

func (w *world) locationUID(name string) (string, error) {
	l, err := dynamicClient(w.t, w.hub.PathConfig("spaces/root")).
		Resource(schema.GroupVersionResource{Group: "orrery.dev", Version: "v1alpha1", Resource: "locations"}).
		Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(l.GetUID()), nil
}

// proven says that the marks of an object are its own: controllers copy labels.
func proven(u *unstructured.Unstructured) bool {
	a := u.GetAnnotations()
	return a["orrery.dev/source-kind"] == u.GetKind() && a["orrery.dev/source-name"] == u.GetName() &&
		a["orrery.dev/source-namespace"] == u.GetNamespace() && metav1.GetControllerOf(u) == nil
}

// sourceExists follows the marks of an object back to the space.
func (w *world) sourceExists(a *unstructured.Unstructured) error {
	space := a.GetLabels()["orrery.dev/space"]
	if space == "" {
		return errors.New("has no mark of its space")
	}
	config := w.hub.PathConfig("spaces/" + space)
	gvr, namespaced, err := resourceOf(config, a.GroupVersionKind())
	if err != nil {
		return err
	}
	var r dynamic.ResourceInterface = dynamicClient(w.t, config).Resource(gvr)
	if namespaced {
		r = dynamicClient(w.t, config).Resource(gvr).Namespace(a.GetNamespace())
	}
	source, err := r.Get(w.t.Context(), a.GetName(), metav1.GetOptions{})
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

// listAll lists everything an API has, by GROUP/KIND/NAMESPACE/NAME.
func listAll(ctx context.Context, c *rest.Config, selector string) (listed, error) {
	c = rest.CopyConfig(c)
	c.WarningHandler = rest.NoWarnings{} // it lists deprecated kinds, too
	client, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, err
	}
	resources, err := client.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	all := listed{}
	for _, list := range resources {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			items, err := dyn.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // a kind that went between discovery and now
			}
			if err != nil {
				return nil, err
			}
			for i := range items.Items {
				u := &items.Items[i]
				all[strings.Join([]string{gv.Group, u.GetKind(), u.GetNamespace(), u.GetName()}, "/")] = u
			}
		}
	}
	return all, nil
}

// missing names the first field of want that got lacks or has otherwise. Lists
// are compared as long as want's are: the cluster may add items of its own.
func missing(want, got any, path string) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return path + " is not an object"
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if path == "" && k == "metadata" {
				want[k] = wantedMetadata(want[k])
			}
			if d := missing(want[k], have[k], path+"."+k); d != "" {
				return d
			}
		}
		return ""
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) < len(want) {
			return path + " has fewer items"
		}
		for i := range want {
			if d := missing(want[i], have[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(got)
	if errA != nil || errB != nil || string(a) != string(b) {
		return fmt.Sprintf("%s is %s, want %s", path, b, a)
	}
	return ""
}

// wantedMetadata leaves out what belongs to the view itself.
func wantedMetadata(m any) any {
	out := maps.Clone(m.(map[string]any))
	delete(out, "resourceVersion")
	return out
}
