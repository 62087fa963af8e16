package views

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is what an owner of an object is called in its space, of an object that was read from
// a view of all spaces; false if it was read elsewhere. namespaced says that owners of that
// kind are in namespaces.
func Owner(of metav1.Object, by metav1.OwnerReference, namespaced bool) (Object, bool) {
	o, ok := Of(of)
	if !ok {
		return Object{}, false
	}
	if namespaced { // in the namespace of what it owns, and called there as in its space
		o.Name = by.Name
		return o, o.Namespace != "" && o.Name != ""
	}
	owner, ok := Named(types.NamespacedName{Name: by.Name})
	return owner, ok && owner.Space == o.Space
}

// Reference is a reference to an owner for what is written through a path of its space alone.
// The owner may have been read there, or from a view of all spaces; through that view itself
// one refers to it as anywhere.
func Reference(to metav1.Object, kind schema.GroupVersionKind) metav1.OwnerReference {
	name := to.GetName()
	if o, ok := Of(to); ok {
		name = o.Name
	}
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: to.GetUID()}
}
