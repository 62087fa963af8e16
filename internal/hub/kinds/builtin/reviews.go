package builtin

import (
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/columns"
	"orrery.dev/orrery/internal/hub/kinds/downsync"
	"orrery.dev/orrery/internal/protocol/key"
)

// Reviews makes the kinds of reviews that clients ask for about themselves. They are
// answered and never stored, so they have no storage codec.
func Reviews(now func() time.Time) ([]*kinds.Kind, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register reviews: %w", err)
		}
	}
	tables := columns.New(now)
	var all []*kinds.Kind
	for _, gvk := range []schema.GroupVersionKind{
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
	} {
		k, err := newReview(scheme, gvk, tables)
		if err != nil {
			return nil, fmt.Errorf("kind %s: %w", gvk, err)
		}
		all = append(all, k)
	}
	return all, nil
}

func newReview(scheme *runtime.Scheme, gvk schema.GroupVersionKind, tables columns.Tables) (*kinds.Kind, error) {
	object, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	gv, singular := gvk.GroupVersion(), strings.ToLower(gvk.Kind)
	return kinds.New(kinds.Kind{
		GVK:      gvk,
		Storage:  gv,
		Hub:      gv,
		Resource: key.NewResource(gv.Group, singular+"s"),
		GVR:      gv.WithResource(singular + "s"),
		Singular: singular,
		New:      makerOf(object),
		// The clients' schemas leave reviews out, which have no lists to merge.
		Types:   managedfields.NewDeducedTypeConverter(),
		Columns: tables.Created(),
		Travels: downsync.Custom(gv.Group),
	}, kinds.Machinery{Objects: scopeOf(scheme, serializer.NewCodecFactory(scheme))})
}
