package kinds

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/protocol/key"
)

// A write to the status of an object changes its status and, for most built-in
// kinds, what it says of the metadata, too: Kubernetes leaves that to each kind.
// Field managers and strategies have to agree on it.

// statusResets are the fields that a write to the status does not change.
func (k *Kind) statusResets() *fieldpath.Set {
	reset := fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))
	switch {
	case k.SealedStatus:
		reset.Insert(fieldpath.MakePathOrDie("metadata"))
	case k.Resource == key.NewResource("apps", "deployments"):
		reset.Insert(fieldpath.MakePathOrDie("metadata", "labels"))
	case k.Resource == key.NewResource("", "pods"):
		reset.Insert(fieldpath.MakePathOrDie("metadata", "deletionTimestamp"))
		reset.Insert(fieldpath.MakePathOrDie("metadata", "ownerReferences"))
	}
	return reset
}

// ResetForStatus restores the metadata of an object whose status is written, as far as the
// kind requires that. Managed fields are not restored.
func (k *Kind) ResetForStatus(now, old metav1.Object) {
	switch {
	case k.SealedStatus:
		metav1.ResetObjectMetaForStatus(now, old)
	case k.Resource == key.NewResource("apps", "deployments"):
		now.SetLabels(old.GetLabels())
	case k.Resource == key.NewResource("", "pods"):
		now.SetDeletionTimestamp(old.GetDeletionTimestamp())
		now.SetOwnerReferences(old.GetOwnerReferences())
	}
}
