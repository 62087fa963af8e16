package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
)

// count is the result of a check in which the invariants held.
type count struct{ objects, locations, copies int }

func (c count) String() string {
	return plural(c.objects, "object", "objects") + ", " + plural(c.locations, "location", "locations") + ", " + plural(c.copies, "copy", "copies")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// identity identifies an object on both sides.
type identity struct {
	schema.GroupKind
	namespace, name string
}

func identityOf(o *unstructured.Unstructured) identity {
	return identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

func (i identity) String() string {
	if i.namespace == "" {
		return i.Kind + " " + i.name
	}
	return i.Kind + " " + i.namespace + "/" + i.name
}

// checker compares the space with the clusters. It only reads, and each check is of the state at its time.
type checker struct {
	world *world
	// found is the result of the last check in which the invariants held.
	found count
}

// verify lists both sides and returns an error if an invariant does not hold. It ignores
// disconnected locations.
func (c *checker) verify(ctx context.Context, away ...*location) (count, error) {
	sources, err := c.sources(ctx)
	if err != nil {
		return count{}, err
	}
	selected, err := c.selected(ctx)
	if err != nil {
		return count{}, err
	}
	n := count{objects: len(sources), locations: len(selected)}
	copies := map[identity][]*unstructured.Unstructured{}
	for _, l := range c.world.locations {
		if slices.Contains(away, l) {
			continue
		}
		want := map[identity]*unstructured.Unstructured{}
		if slices.Contains(selected, l) {
			for _, source := range sources {
				want[identityOf(source)] = source
			}
		}
		found, err := l.check(ctx, want)
		if err != nil {
			return count{}, fmt.Errorf("location %s: %w", l.name, err)
		}
		n.copies += len(found)
		for _, object := range found {
			copies[identityOf(object)] = append(copies[identityOf(object)], object)
		}
	}
	if len(away) > 0 { // their reports are unknown
		return n, nil
	}
	for _, source := range sources {
		if err := checkStatus(source, copies[identityOf(source)]); err != nil {
			return count{}, err
		}
	}
	return n, nil
}

// sources lists the objects of the space that the Placement matches.
func (c *checker) sources(ctx context.Context) ([]*unstructured.Unstructured, error) {
	app, err := parse(storefrontYAML)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, like := range app {
		mapping, err := c.world.shop.mapping(like.GroupVersionKind())
		if meta.IsNoMatchError(err) {
			continue // the CRD was deleted, and its objects with it
		}
		if err != nil {
			return nil, err
		}
		options := metav1.ListOptions{}
		switch {
		case like.GetNamespace() == namespace:
		case like.GetName() == crdName:
			options.FieldSelector = "metadata.name=" + crdName
		default:
			continue // namespaces go to the locations of their objects
		}
		list, err := c.world.shop.objects(mapping, like.GetNamespace()).List(ctx, options)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s in the space: %w", like.GetKind(), err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}

// selected returns the locations that the Placement selects by their present labels.
func (c *checker) selected(ctx context.Context) ([]*location, error) {
	object, err := c.world.shop.get(ctx, objectOf("Placement", placementName))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p v1alpha1.Placement
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &p); err != nil {
		return nil, fmt.Errorf("read the Placement: %w", err)
	}
	var selected []*location
	for _, l := range c.world.locations {
		object, err := c.world.root.get(ctx, objectOf("Location", l.name))
		if err != nil {
			return nil, err
		}
		for _, s := range p.Spec.Locations {
			selector, err := metav1.LabelSelectorAsSelector(s.Selector)
			if err != nil {
				return nil, fmt.Errorf("read the Placement: %w", err)
			}
			if selector.Matches(labels.Set(object.GetLabels())) {
				selected = append(selected, l)
				break
			}
		}
	}
	return selected, nil
}

// check compares the objects at a location with the desired objects, and returns the former.
func (l *location) check(ctx context.Context, want map[identity]*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for id, source := range want {
		object, err := l.get(ctx, source)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s is missing", id)
		}
		if err != nil {
			return nil, err
		}
		if err := compare(source, object); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		if object.GetAnnotations()[v1alpha1.SourceUIDAnnotation] != string(source.GetUID()) {
			return nil, fmt.Errorf("%s does not name the UID of its source", id)
		}
		found = append(found, object)
	}
	marked, err := l.marked(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range marked {
		if want[id] == nil {
			return nil, fmt.Errorf("%s is still there", id)
		}
	}
	if len(marked) < len(want) {
		return nil, errors.New("not everything is marked")
	}
	return found, nil
}

// marked lists objects of all kinds that the location serves, if they have ownership metadata.
func (l *location) marked(ctx context.Context) ([]identity, error) {
	l.discovery.Invalidate()
	lists, err := l.discovery.ServerPreferredResources()
	if err != nil && len(lists) == 0 { // some groups may fail, such as those of add-ons
		return nil, fmt.Errorf("list the kinds: %w", err)
	}
	var all []identity
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("list the kinds: %w", err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			objects, err := l.dynamic.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LocationLabel})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Name, err)
			}
			for i := range objects.Items {
				if proven(&objects.Items[i]) {
					all = append(all, identityOf(&objects.Items[i]))
				}
			}
		}
	}
	return all, nil
}

// proven reports whether the ownership metadata of an object is its own. Controllers copy labels to
// the objects that they create.
func proven(o *unstructured.Unstructured) bool {
	a := o.GetAnnotations()
	return a[v1alpha1.SourceKindAnnotation] == o.GetKind() && a[v1alpha1.SourceNamespaceAnnotation] == o.GetNamespace() && a[v1alpha1.SourceNameAnnotation] == o.GetName() &&
		o.GetLabels()[v1alpha1.SpaceLabel] == shopSpace && metav1.GetControllerOf(o) == nil
}

// checkStatus returns an error unless the status of a source is that of the only location that has
// the object, or the Rollup of several for a Deployment, or empty.
func checkStatus(source *unstructured.Unstructured, copies []*unstructured.Unstructured) error {
	if source.GetName() == crdName {
		return nil // a CRD's status is set by its space
	}
	if len(copies) > 1 && source.GetKind() == "Deployment" {
		return checkRollup(source, copies)
	}
	var want any
	if len(copies) == 1 {
		want = copies[0].Object["status"]
	}
	have := source.Object["status"]
	if isEmpty(want) && isEmpty(have) || equality.Semantic.DeepEqual(statusInSpace(want, source), have) {
		return nil
	}
	return fmt.Errorf("the status of %s is %v in the space, but should be %v", identityOf(source), have, want)
}

// checkRollup returns an error unless the status of a Deployment counts as many replicas as each of its
// locations has. The demo's locations all want the number of replicas of the source.
func checkRollup(source *unstructured.Unstructured, copies []*unstructured.Unstructured) error {
	for _, counter := range []string{"readyReplicas", "updatedReplicas", "availableReplicas"} {
		least := int64(math.MaxInt64)
		for _, one := range copies {
			n, _, _ := unstructured.NestedInt64(one.Object, "status", counter)
			least = min(least, n)
		}
		if have, _, _ := unstructured.NestedInt64(source.Object, "status", counter); have != least {
			return fmt.Errorf("%s of %s is %d in the space, but should be %d", counter, identityOf(source), have, least)
		}
	}
	return nil
}

// statusInSpace translates a status at a location to its form in the space: observedGeneration
// becomes the generation of the source.
func statusInSpace(status any, source *unstructured.Unstructured) any {
	m, ok := status.(map[string]any)
	if !ok || m["observedGeneration"] == nil {
		return status
	}
	m = maps.Clone(m)
	m["observedGeneration"] = source.GetGeneration()
	return m
}

// isEmpty reports whether a value contains only empty maps, such as the status of a Service without
// a load balancer.
func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	for _, field := range m {
		if !isEmpty(field) {
			return false
		}
	}
	return v == nil || ok
}
