package faults

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

// gadgets are a kind that the spaces have in a version that comes and goes at the sites,
// which have a definition of their own.
var gadgets = schema.GroupVersionResource{Group: "gadgets.example.net", Version: "v1beta1", Resource: "gadgets"}

var clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}

// lasting is the version of gadgets that the sites always serve.
const lasting = "v1"

// atSite is where a thing is at a site.
func (o thing) atSite() schema.GroupVersionResource {
	if o.gvr == gadgets {
		return gadgets.GroupResource().WithVersion(lasting)
	}
	return o.gvr
}

func gadgetDefinition(served bool, versions ...string) *unstructured.Unstructured {
	var all []any
	for _, v := range versions {
		all = append(all, map[string]any{
			"name": v, "served": served || v == lasting, "storage": v == versions[len(versions)-1],
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + gadgets.Group},
		"spec": map[string]any{
			"group": gadgets.Group, "scope": "Namespaced", "versions": all,
			"names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
		},
	}}
}

// prepare creates objects at a site that Orrery does not manage: a CustomResourceDefinition and an
// owner.
func (l *life) prepare(s *world.Site) {
	l.t.Helper()
	if _, err := s.Client.Resource(world.CRDs).Create(l.t.Context(), gadgetDefinition(true, gadgets.Version, lasting), metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	role := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "intruder"},
	}}
	made, err := s.Client.Resource(clusterRoles).Create(l.t.Context(), role, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.owners[s.Name] = made.GetUID()
}

// owned gives an object an owner in the cluster, as if a controller had created it.
func (l *life) owned(s *world.Site, u *unstructured.Unstructured) {
	yes := true
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "intruder", UID: l.owners[s.Name], Controller: &yes,
	}})
}

// intrudeKind makes an object at a site, of a definition of a space: it is to stay.
func (l *life) intrudeKind() {
	s, space := l.Sites[pick(l.r, siteNames)], pick(l.r, spaceNames)
	if l.hung[s.Name] {
		return
	}
	o := thing{space: space, namespace: "default", name: "theirs", gvr: widgets(space), kind: "Widget"}
	u := o.body("", "foreign")
	if l.r.IntN(2) == 0 {
		l.owned(s, u)
	}
	made, err := s.Client.Resource(o.gvr).Namespace(o.namespace).Create(l.t.Context(), u, metav1.CreateOptions{FieldManager: "intruder"})
	l.record("intrude as %s at %s: %v", o.key(), s.Name, err)
	if err == nil {
		l.foreign[s.Name][o.key()] = made.GetUID()
	}
}

// moveDefinition takes the definition of a space from all locations, or assigns it again.
func (l *life) moveDefinition() { l.placeDefinition(pick(l.r, spaceNames), l.r.IntN(2) == 0) }

func (l *life) placeDefinition(space string, placed bool) {
	value := "null"
	if placed {
		value = `"` + always + `"`
	}
	l.moved["definition|"+space] = true
	_, err := l.spaces[space].Resource(world.CRDs).Patch(l.t.Context(), "widgets."+widgets(space).Group, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"for":`+value+`}}}`), metav1.PatchOptions{})
	l.record("label the definition of %s: %s: %v", space, value, err)
	l.displaced[space] = !placed || err != nil
}

// moveVersion has a site serve gadgets in the version of the spaces no more, or again.
func (l *life) moveVersion() { l.serveVersion(l.Sites[pick(l.r, siteNames)], l.r.IntN(3) == 0) }

func (l *life) serveVersion(s *world.Site, served bool) {
	if l.hung[s.Name] {
		return
	}
	_, err := s.Client.Resource(world.CRDs).Patch(l.t.Context(), "gadgets."+gadgets.Group, types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/0/served","value":%v}]`, served), metav1.PatchOptions{})
	l.record("%s is served at %s: %v: %v", gadgets.Version, s.Name, served, err)
	l.ended[s.Name] = !served || err != nil
}

// settleStrange puts back what heals by hand only.
func (l *life) settleStrange() {
	for space, is := range seeds.Ordered(l.displaced) {
		if is {
			l.placeDefinition(space, true)
		}
	}
	for site, is := range seeds.Ordered(l.ended) {
		if is {
			l.serveVersion(l.Sites[site], true)
		}
	}
}

// lost forgets the foreign objects of a CustomResourceDefinition that was removed at a site.
func (l *life) lost(s *world.Site, group string) {
	for k := range l.foreign[s.Name] {
		if strings.HasPrefix(k, group+"/") {
			delete(l.foreign[s.Name], k)
		}
	}
}
