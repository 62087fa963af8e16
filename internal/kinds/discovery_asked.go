package kinds

import (
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"orrery.dev/orrery/internal/key"
)

// askedKinds makes the kinds whose objects are questions of clients about
// themselves. They are answered and never kept, so they have no codec of the
// log, and nothing of them travels.
func askedKinds() ([]*Kind, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register questions: %w", err)
		}
	}
	var kinds []*Kind
	for _, gvk := range []schema.GroupVersionKind{
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
	} {
		k, err := newAsked(scheme, gvk)
		if err != nil {
			return nil, fmt.Errorf("kind %s: %w", gvk, err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func newAsked(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (*Kind, error) {
	object, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	gv, singular := gvk.GroupVersion(), strings.ToLower(gvk.Kind)
	k := &Kind{
		GVK:      gvk,
		Storage:  gv,
		Hub:      gv,
		Resource: key.NewResource(gv.Group, singular+"s"),
		GVR:      gv.WithResource(singular + "s"),
		Singular: singular,
		New:      makerOf(object),
		// The clients' schemas leave questions out, which have no lists to merge.
		Types:   managedfields.NewDeducedTypeConverter(),
		Columns: createdPrinter(),
	}
	return k, k.addScope("", gvk, gv, handlers.RequestScope{
		Serializer:      serializer.NewCodecFactory(scheme),
		ParameterCodec:  runtime.NewParameterCodec(scheme),
		Creater:         scheme,
		Convertor:       scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(scheme),
		Defaulter:       noDefaults{},
		Typer:           scheme,
	})
}
