package demo

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
)

// objectOf returns an Orrery object without a spec.
func objectOf(kind, name string) *unstructured.Unstructured {
	return newObject(v1alpha1.GroupVersion.String(), kind, "", name)
}

func newObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
