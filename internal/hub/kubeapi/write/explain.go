package write

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/kubeapi/textual"
	"orrery.dev/orrery/internal/protocol/key"
)

// explain sets the conditions of an owner to the objects for which its deletion waits. It writes
// nothing if they are up to date.
func (s *Server) explain(ctx context.Context, o key.Object, held remains) error {
	r, err := s.builtin(o.Resource)
	if err != nil {
		return err
	}
	now := metav1.NewTime(s.config.Now())
	err = r.status.store.Storage.GuaranteedUpdate(textual.With(ctx, r.kind), s.etcdKey(o), r.kind.New(), false, nil,
		storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
			switch e := existing.(type) {
			case *corev1.Namespace:
				for _, c := range namespaceConditions(held) {
					setNamespaceCondition(e, now, c)
				}
			case *apiextensionsv1.CustomResourceDefinition:
				if held.objects == 0 {
					break // the condition of the deletion request stays
				}
				setCondition(e, now, apiextensionsv1.CustomResourceDefinitionCondition{
					Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionInProgress",
					Message: fmt.Sprintf("%d objects wait for finalizers: %s", held.objects, summary(held.finalizers, "%s in %d objects")),
				})
			case *unstructured.Unstructured:
				if held.objects > 0 {
					unbinding(e, fmt.Sprintf("%d objects wait for finalizers: %s", held.objects, summary(held.finalizers, "%s in %d objects")), now)
				}
			}
			return existing, nil
		}), false, nil)
	if err != nil && !storage.IsNotFound(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("explain the deletion of %q: %w", o.Path(), err)
	}
	return nil
}

// namespaceConditions returns the conditions of a Namespace that is being deleted, with the reasons
// and messages of Kubernetes.
func namespaceConditions(held remains) []corev1.NamespaceCondition {
	all := []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Reason: "ContentRemoved", Message: "All content successfully removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
	}
	for i := range all {
		c := &all[i]
		c.Status = corev1.ConditionFalse
		switch {
		case held.objects == 0:
		case c.Type == corev1.NamespaceContentRemaining:
			c.Status, c.Reason = corev1.ConditionTrue, "SomeResourcesRemain"
			c.Message = "Some resources are remaining: " + summary(held.resources, "%s has %d resource instances")
		case c.Type == corev1.NamespaceFinalizersRemaining:
			c.Status, c.Reason = corev1.ConditionTrue, "SomeFinalizersRemain"
			c.Message = "Some content in the namespace has finalizers remaining: " + summary(held.finalizers, "%s in %d resource instances")
		}
	}
	return all
}

func setNamespaceCondition(ns *corev1.Namespace, now metav1.Time, c corev1.NamespaceCondition) {
	c.LastTransitionTime = now
	for i, previous := range ns.Status.Conditions {
		if previous.Type != c.Type {
			continue
		}
		if previous.Status == c.Status {
			c.LastTransitionTime = previous.LastTransitionTime
		}
		ns.Status.Conditions[i] = c
		return
	}
	ns.Status.Conditions = append(ns.Status.Conditions, c)
}
