package write

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// boundBy returns the resources of an APIBinding.
func boundBy(row *table.Row) (all []key.Resource) {
	var b v1alpha1.APIBinding
	if row == nil || json.Unmarshal(row.Value, &b) != nil {
		return nil
	}
	for _, resource := range b.Status.Resources {
		all = append(all, key.NewResource(resource.Group, resource.Resource))
	}
	return all
}

// boundIn reports whether a resource of a space belongs to an APIBinding.
func boundIn(state table.Reader, space key.Space, r key.Resource) bool {
	return slices.ContainsFunc(binding.InSpace(state, space), func(b *binding.Binding) bool {
		_, ok := b.Bound(r)
		return ok
	})
}

// unbinding sets the condition of an APIBinding that is being deleted. It ignores other objects.
func unbinding(u *unstructured.Unstructured, message string, now metav1.Time) {
	if u.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("APIBinding") {
		return
	}
	_, b := bindingOf(u)
	if b == nil {
		return
	}
	meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnbinding, Message: message,
		ObservedGeneration: b.Generation, LastTransitionTime: now,
	})
	setBindingStatus(u, b)
}
