package write

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kubeapi/textual"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// NamesAccepted reports whether a CRD has all the names that it requests.
func NamesAccepted(crd *table.Row) bool {
	return gjson.GetBytes(crd.Value, `status.conditions.#(type=="NamesAccepted").status`).String() == string(apiextensionsv1.ConditionTrue)
}

// SettleNames gives CRDs of a space that lack names those that are free now. Controllers must call it
// after each change or deletion of a CRD.
func (s *Server) SettleNames(ctx context.Context, space key.Space) error {
	var refused []string
	prefix := key.ResourcePrefix(space, key.CRDs)
	s.config.Table.Snapshot().Ascend(prefix, func(row *table.Row) bool {
		if !NamesAccepted(row) {
			refused = append(refused, strings.TrimPrefix(row.Key, prefix))
		}
		return true
	})
	if len(refused) == 0 {
		return nil
	}
	r, err := s.builtin(key.CRDs)
	if err != nil {
		return err
	}
	ctx = textual.With(withRequest(ctx, space, r.kind, metav1.NamespaceNone), r.kind)
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
