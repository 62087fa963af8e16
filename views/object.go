// Package views is for controllers that serve an API to many spaces of an Orrery hub, by an
// APIExport or a slice of one. It maps objects in a view to objects in spaces, and returns the URLs
// of views.
//
// A controller that uses only the names in its view does not need it. The package must not send
// requests, and must stay small: it imports only names and paths of the hub.
package views

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// Object identifies an object in its own space.
type Object struct {
	Space string
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
}

// ObjectOf returns the identity in its space of an object that was read from a view of all spaces; false
// if it was read elsewhere.
func ObjectOf(o metav1.Object) (Object, bool) {
	seen, ok := Named(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
	annotations := o.GetAnnotations()
	annotated := Object{annotations[v1alpha1.SpaceAnnotation], annotations[v1alpha1.SourceNamespaceAnnotation], annotations[v1alpha1.SourceNameAnnotation]}
	if !ok || annotated != seen { // in one space, any name and annotation is possible
		return Object{}, false
	}
	return seen, true
}

// Named returns the object with this name in a view of all spaces, such as the name in a reconcile
// request; false if the name is not from such a view.
func Named(n types.NamespacedName) (Object, bool) {
	c, ok := wide.Split(n.Namespace != "", n.Namespace, n.Name)
	if !ok || c.Space == "" || c.Name == "" {
		return Object{}, false
	}
	return Object{string(c.Space), c.Namespace, c.Name}, true
}

// Seen returns the name of the object in a view of all spaces.
func (o Object) Seen() types.NamespacedName {
	namespace, name := wide.ObjectName("", key.Object{Space: key.Space(o.Space), Identity: key.Identity{Namespace: o.Namespace, Name: o.Name}})
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// wide defines the names in views of all spaces.
var wide = key.Wide{Spaces: true}
