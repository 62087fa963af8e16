// Package views is for controllers that serve an API to many spaces of an Orrery hub, by an
// APIExport or by a slice of one: it says which object of which space one is that they see,
// and where views are served.
//
// A controller does without it as long as it only goes by the names that it is shown. The
// package must never send a request, and must stay small: of the hub it has names and paths.
package views

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// Object is what an object is called in its own space.
type Object struct {
	Space string
	// Namespace is empty for what is in none.
	Namespace, Name string
}

// Of is what an object is called in its space, of one that was read from a view of all
// spaces; false if it was read elsewhere.
func Of(o metav1.Object) (Object, bool) {
	seen, ok := Named(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
	said := o.GetAnnotations()
	told := Object{said[v1alpha1.SpaceAnnotation], said[v1alpha1.SourceNamespaceAnnotation], said[v1alpha1.SourceNameAnnotation]}
	if !ok || told != seen { // an object of one space may be called, or annotated, like anything
		return Object{}, false
	}
	return seen, true
}

// Named is which object a view of all spaces calls so, as in the request of a reconciler;
// false if it calls none so.
func Named(n types.NamespacedName) (Object, bool) {
	c, ok := wide.Split(n.Namespace != "", n.Namespace, n.Name)
	if !ok || c.Space == "" || c.Name == "" {
		return Object{}, false
	}
	return Object{string(c.Space), c.Namespace, c.Name}, true
}

// Seen is what a view of all spaces calls the object.
func (o Object) Seen() types.NamespacedName {
	namespace, name := wide.At("", key.Object{Space: key.Space(o.Space), Identity: key.Identity{Namespace: o.Namespace, Name: o.Name}})
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// wide are the names in views of all spaces.
var wide = key.Wide{Spaces: true}
