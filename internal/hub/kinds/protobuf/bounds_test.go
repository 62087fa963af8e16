package protobuf

import (
	"reflect"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestWritersForget: what a writer keeps of an object is neither the object nor room for one
// that is unusually large, which each object after it would pay for.
func TestWritersForget(t *testing.T) {
	role := new(Types).Type(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), reflect.TypeFor[rbacv1.ClusterRole]())
	object := func(verbs int) []byte {
		return []byte(`{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"x"},"rules":[{"verbs":[""` + strings.Repeat(`,""`, verbs) + `]}]}`)
	}
	w := &writer{}
	for _, verbs := range []int{10, 10 * keepValues, 10} {
		if base := w.reserve(role.message().values); !role.message().read(w, base, object(verbs)) || !role.message().write(w, base) {
			t.Fatal("it was not written")
		}
		w.reset()
		if cap(w.values) > keepValues || cap(w.memory) > keep {
			t.Errorf("after %d verbs there is room for %d values and %d bytes", verbs, cap(w.values), cap(w.memory))
		}
		for _, v := range w.values[:cap(w.values)] {
			if v != nil {
				t.Fatalf("after %d verbs %q is kept", verbs, v)
			}
		}
	}
}

// TestDeepIsDecoded: the time that an object takes does not grow with how deep it is.
func TestDeepIsDecoded(t *testing.T) {
	crd := new(Types).Type(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]())
	for _, deep := range []int{0, 20, deepest, 9000} {
		object := `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{},"spec":{"versions":[{"schema":{"openAPIV3Schema":{` +
			strings.Repeat(`"not":{`, deep) + strings.Repeat(`}`, deep) + `}}}]}}`
		if _, ok := crd.Append(nil, []byte(object)); ok != (deep < deepest) {
			t.Errorf("%d deep: transcoded %v", deep, ok)
		}
	}
}
