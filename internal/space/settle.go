package space

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/key"
)

// SettleNames gives the CRDs of a group that were refused names those that are
// free now. FinishCRD does it whenever names have become free.
func (s *Server) SettleNames(ctx context.Context, space key.Space, group string) error {
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	var refused []string
	s.eachCRD(s.config.Table.Snapshot(), space, group, func(name string, crd crdOutline) {
		if !conditionTrue(crd.Status.Conditions, apiextensionsv1.NamesAccepted) {
			refused = append(refused, name)
		}
	})
	if len(refused) == 0 {
		return nil
	}
	r, err := s.builtin(key.CRDs)
	if err != nil {
		return err
	}
	ctx = about(ctx, space, r.kind, metav1.NamespaceNone)
	same := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		return old.DeepCopyObject(), nil
	})
	for _, name := range refused {
		_, _, err := r.objects.Update(ctx, name, same, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("settle the names of CRD %q in space %q: %w", name, space, err)
		}
	}
	return nil
}
