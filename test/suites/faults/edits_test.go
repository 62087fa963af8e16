package faults

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

var (
	spaceNames = []string{"alpha", "beta"}
	siteNames  = []string{"north", "south"}
	// groups are what an object can be in: each is placed by the Placement of its
	// name, on the locations labelled SPACE-GROUP. always is never moved.
	groups = []string{"g0", "g0", "g1", "g1", ""}
)

const always = "always"

// shared is a namespace of every space: what is in it is wanted at a location by
// as many as place it there.
const shared = "shared"

// thing is one object that may exist in a space.
type thing struct {
	space, namespace, name string
	gvr                    schema.GroupVersionResource
	kind                   string
}

// key is what the thing is called at a site, source what in all spaces together.
func (o thing) key() string {
	return strings.Join([]string{o.gvr.Group, o.kind, o.namespace, o.name}, "/")
}

// namespaces are those of a space.
func namespaces(space string) []string { return []string{space + "-a", space + "-b", shared} }

func (o thing) source() string { return o.space + "|" + o.key() }

// draw chooses one of the things there may be. But for those in the shared
// namespace no two spaces want the same identity.
func (l *life) draw() thing {
	space := pick(l.r, spaceNames)
	o := thing{space: space, namespace: pick(l.r, namespaces(space))}
	switch n := l.r.IntN(10); {
	case o.namespace == shared && n < 8:
		o.gvr, o.kind, o.name = world.ConfigMaps, "ConfigMap", fmt.Sprintf("c%d", l.r.IntN(4))
	case o.namespace == shared:
		o.gvr, o.kind, o.name = world.Deployments, "Deployment", "d0"
	case n < 6:
		o.gvr, o.kind, o.name = world.ConfigMaps, "ConfigMap", fmt.Sprintf("c%d", l.r.IntN(6))
	case n < 8:
		o.gvr, o.kind, o.name = world.Deployments, "Deployment", fmt.Sprintf("d%d", l.r.IntN(2))
	case n < 9:
		o.gvr, o.kind, o.name = widgets(space), "Widget", fmt.Sprintf("w%d", l.r.IntN(3))
	default:
		o.gvr, o.kind, o.name = gadgets, "Gadget", fmt.Sprintf("g%d", l.r.IntN(3))
	}
	return o
}

// thingOf is what an object of a site is, if it is one that draw could have chosen.
func thingOf(u *unstructured.Unstructured) (thing, bool) {
	o := thing{
		space: u.GetLabels()["orrery.dev/space"], namespace: u.GetNamespace(), name: u.GetName(), kind: u.GetKind(),
	}
	switch o.kind {
	case "ConfigMap":
		o.gvr = world.ConfigMaps
	case "Deployment":
		o.gvr = world.Deployments
	case "Widget":
		o.gvr = widgets(o.space)
	case "Gadget":
		o.gvr = gadgets
	default:
		return o, false
	}
	return o, true
}

func widgets(space string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: space + ".example.org", Version: "v1", Resource: "widgets"}
}

// body is the thing with a value.
func (o thing) body(group, value string) *unstructured.Unstructured {
	labels := map[string]any{}
	if group != "" {
		labels["for"] = group
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.gvr.GroupVersion().String(), "kind": o.kind,
		"metadata": map[string]any{"name": o.name, "namespace": o.namespace, "labels": labels},
	}}
	switch o.kind {
	case "ConfigMap":
		u.Object["data"] = map[string]any{"v": value, "of-" + value: "here and nowhere else"}
	case "Widget", "Gadget":
		u.Object["spec"] = map[string]any{"v": value}
	case "Deployment":
		app := map[string]any{"app": o.name}
		u.Object["spec"] = map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": app},
			"template": map[string]any{
				"metadata": map[string]any{"labels": app, "annotations": map[string]any{"v": value}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "registry.example/app:1"}}},
			},
		}
	}
	return u
}

// valueOf is the value in an object that body made.
func valueOf(u *unstructured.Unstructured) string {
	path := map[string][]string{
		"ConfigMap": {"data", "v"}, "Widget": {"spec", "v"}, "Gadget": {"spec", "v"},
		"Deployment": {"spec", "template", "metadata", "annotations", "v"},
	}[u.GetKind()]
	v, _, err := unstructured.NestedString(u.Object, path...)
	if err != nil {
		return err.Error()
	}
	return v
}

// furnish makes what a space starts with: a definition, namespaces and Placements.
func (l *life) furnish(space string) {
	l.t.Helper()
	_, err := l.spaces[space].Resource(world.CRDs).Create(l.t.Context(), definition(space), metav1.CreateOptions{})
	if err == nil {
		_, err = l.spaces[space].Resource(world.CRDs).Create(l.t.Context(), gadgetDefinition(true, gadgets.Version), metav1.CreateOptions{})
	}
	for _, n := range namespaces(space) {
		err = errors.Join(err, l.addNamespace(space, n))
	}
	for _, group := range []string{"g0", "g1"} {
		err = errors.Join(err, l.addPlacement(space, group))
	}
	labels := metav1.LabelSelector{} // every location
	if err = errors.Join(err, place(l.t, l.spaces[space], always, labels)); err != nil {
		l.t.Fatal(err)
	}
}

// definition is the one that a space has.
func definition(space string) *unstructured.Unstructured {
	gvr := widgets(space)
	preserve := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + gvr.Group, "labels": map[string]any{"for": always}},
		"spec": map[string]any{
			"group": gvr.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": preserve},
			}},
		},
	}}
}

func (l *life) addNamespace(space, name string) error {
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"for": always}},
	}}
	_, err := l.spaces[space].Resource(world.Namespaces).Create(l.t.Context(), ns, metav1.CreateOptions{})
	return err
}

func (l *life) addPlacement(space, group string) error {
	return place(l.t, l.spaces[space], group, metav1.LabelSelector{MatchLabels: map[string]string{space + "-" + group: "yes"}})
}

// acknowledged notes the outcome of an edit: the value, if the hub granted it. An object
// in a namespace that is being deleted may still be edited until it is deleted with it.
func (l *life) acknowledged(o thing, value string, err error) {
	k := o.source()
	var status apierrors.APIStatus
	switch {
	case err == nil && value != "" && l.moved["namespace|"+o.space+"|"+o.namespace]:
		delete(l.promised, k)
	case err == nil:
		l.promised[k] = value
	case errors.As(err, &status): // refused
	default:
		delete(l.promised, k) // it may have been done or not
	}
}

// write makes or replaces a thing.
func (l *life) write() {
	o := l.draw()
	l.serial++
	value := fmt.Sprint("v", l.serial)
	r := l.spaces[o.space].Resource(o.gvr).Namespace(o.namespace)
	l.edited[o.source()] = true
	old, err := r.Get(l.t.Context(), o.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l.moved[o.source()] = true
		_, err = r.Create(l.t.Context(), o.body(pick(l.r, groups), value), metav1.CreateOptions{})
	case err == nil:
		u := o.body(old.GetLabels()["for"], value)
		u.SetResourceVersion(old.GetResourceVersion())
		_, err = r.Update(l.t.Context(), u, metav1.UpdateOptions{})
	}
	l.record("write %s of %s = %s: %v", o.key(), o.space, value, err)
	l.acknowledged(o, value, err)
}

// last is an object that every site gets, and of which nothing else is done in a space than that it is
// written when all else of a round has been.
var last = thing{space: spaceNames[0], namespace: shared, name: "last", gvr: world.ConfigMaps, kind: "ConfigMap"}

// writeLast writes the last object.
func (l *life) writeLast() {
	l.serial++
	value := fmt.Sprint("v", l.serial)
	r := l.spaces[last.space].Resource(last.gvr).Namespace(last.namespace)
	l.edited[last.source()] = true
	env.Eventually(l.t, soon, func() error { // a hub that was killed may just be back
		u := last.body(always, value)
		old, err := r.Get(l.t.Context(), last.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // with its namespace, or the space
			l.moved[last.source()] = true
			_, err = r.Create(l.t.Context(), u, metav1.CreateOptions{})
		case err == nil:
			u.SetResourceVersion(old.GetResourceVersion())
			_, err = r.Update(l.t.Context(), u, metav1.UpdateOptions{})
		}
		return err
	})
	l.promised[last.source()] = value
}

func (l *life) remove() {
	o := l.draw()
	l.moved[o.source()], l.edited[o.source()] = true, true
	err := l.spaces[o.space].Resource(o.gvr).Namespace(o.namespace).Delete(l.t.Context(), o.name, metav1.DeleteOptions{})
	l.record("remove %s of %s: %v", o.key(), o.space, err)
	l.acknowledged(o, "", err)
}

// relabel puts a thing into another group.
func (l *life) relabel() {
	o, group := l.draw(), pick(l.r, groups)
	value := "null"
	if group != "" {
		value = `"` + group + `"`
	}
	l.moved[o.source()], l.edited[o.source()] = true, true
	_, err := l.spaces[o.space].Resource(o.gvr).Namespace(o.namespace).Patch(l.t.Context(), o.name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"for":`+value+`}}}`), metav1.PatchOptions{})
	l.record("relabel %s of %s: %q: %v", o.key(), o.space, group, err)
}

// moveLocation changes the labels of a location, and so which objects are assigned to it.
func (l *life) moveLocation() {
	site, space, group := pick(l.r, siteNames), pick(l.r, spaceNames), pick(l.r, []string{"g0", "g1"})
	value := pick(l.r, []string{`"yes"`, `"yes"`, `"yes"`, "null"})
	l.moved[site+"|"+space+"|"+group] = true
	_, err := l.root.Resource(world.Locations).Patch(l.t.Context(), site, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+space+"-"+group+`":`+value+`}}}`), metav1.PatchOptions{})
	l.record("label location %s %s-%s=%s: %v", site, space, group, value, err)
}

// flicker removes assignments from a location and adds them again immediately.
func (l *life) flicker() {
	site, space, group := pick(l.r, siteNames), pick(l.r, spaceNames), pick(l.r, []string{"g0", "g1"})
	l.moved[site+"|"+space+"|"+group] = true
	for _, value := range []string{"null", `"yes"`} {
		_, err := l.root.Resource(world.Locations).Patch(l.t.Context(), site, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+space+"-"+group+`":`+value+`}}}`), metav1.PatchOptions{})
		l.record("label location %s %s-%s=%s: %v", site, space, group, value, err)
	}
}

// movePlacement deletes a Placement, or makes it again.
func (l *life) movePlacement() {
	space, group := pick(l.r, spaceNames), pick(l.r, []string{"g0", "g1"})
	for _, site := range siteNames {
		l.moved[site+"|"+space+"|"+group] = true
	}
	if l.r.IntN(3) == 0 {
		err := l.spaces[space].Resource(world.Placements).Delete(l.t.Context(), group, metav1.DeleteOptions{})
		l.record("delete placement %s of %s: %v", group, space, err)
		return
	}
	err := l.addPlacement(space, group)
	l.record("make placement %s of %s: %v", group, space, err)
}

// removeNamespace deletes a namespace with all that is in it; it is created again before
// the next round.
func (l *life) removeNamespace() {
	space := pick(l.r, spaceNames)
	name := pick(l.r, namespaces(space))
	l.moved["namespace|"+space+"|"+name] = true
	for k := range l.promised {
		if strings.HasPrefix(k, space+"|") && strings.Contains(k, "/"+name+"/") {
			delete(l.promised, k)
		}
	}
	err := l.spaces[space].Resource(world.Namespaces).Delete(l.t.Context(), name, metav1.DeleteOptions{})
	l.record("remove namespace %s of %s: %v", name, space, err)
}
