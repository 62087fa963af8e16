package views

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Owner returns the identity in its space of an owner of an object that was read from a view of all
// spaces; false if it was read elsewhere. namespaced reports whether the kind of the owner is
// namespaced.
func Owner(owned metav1.Object, ref metav1.OwnerReference, namespaced bool) (Object, bool) {
	o, ok := ObjectOf(owned)
	if !ok {
		return Object{}, false
	}
	if namespaced { // in the namespace of the owned object, under its name in the space
		o.Name = ref.Name
		return o, o.Namespace != "" && o.Name != ""
	}
	owner, ok := Named(types.NamespacedName{Name: ref.Name})
	return owner, ok && owner.Space == o.Space
}

// Reference returns an owner reference for objects that are written through the path of one space.
// The owner may come from there, or from a view of all spaces. Objects that are written through the
// view itself use ordinary references.
func Reference(to metav1.Object, kind schema.GroupVersionKind) metav1.OwnerReference {
	name := to.GetName()
	if o, ok := ObjectOf(to); ok {
		name = o.Name
	}
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: to.GetUID()}
}
