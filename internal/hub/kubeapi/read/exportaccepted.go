package read

import (
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// stillAccepted reports whether the view's state at a revision, and all changes since, may be read
// now. For claimed kinds, the currently accepted claims decide. They do not apply to objects that
// were in the view under an earlier claim.
func (v *view) stillAccepted(rev int64) bool {
	l, ok := v.lens.(exportLens)
	// The acceptance may have changed while the request waited.
	return !ok || v.kind.Custom != nil || l.acceptedSince(v.table, v.kind, min(rev, l.DecidedAt))
}

// acceptanceError returns an error if the accepted claims have changed since the request was
// authorized, so that it may not read a state.
func (v *view) acceptanceError(st state, verb string) error {
	if v.stillAccepted(st.rev) {
		return nil
	}
	return apierrors.NewServerTimeout(v.kind.GVR.GroupResource(), verb, 1)
}

// acceptedSince reports whether the claims of a kind by the export, and the acceptance of these by
// spaces, are unchanged since a revision. A new claim or acceptance is no change: the view had no
// such objects before, so no client has to list again.
func (l exportLens) acceptedSince(t *table.Table, k *kinds.Kind, rev int64) bool {
	export, same := exportOf(t, l.ID), true
	now := t.Rev()
	if rev >= now {
		return true
	}
	reaches := between(t, rev, now, func(c table.Change) (more bool) {
		read := claimedBy
		if c.Row().Key != export {
			if l.Space != "" && spaceOf(c.Row()) != l.Space {
				return true
			}
			read = acceptedBy(export)
		}
		if previous := read(c.Prev, k.Resource); previous != nil {
			same = reflect.DeepEqual(previous, read(c.Cur, k.Resource))
		}
		return same
	}, table.KeyTopic(export), table.ResourceTopic(key.APIBindings))
	return reaches && same
}

// claimedBy returns the claim of a resource in an APIExport, or nil.
func claimedBy(row *table.Row, r key.Resource) *v1alpha1.APIClaim {
	if export := binding.ReadExport(row); export != nil {
		return binding.ClaimOf(export.Spec.Claims, r.APIGroup(), r.Resource)
	}
	return nil
}

// acceptedBy returns the claim of a resource that an APIBinding to the export has accepted, or nil.
func acceptedBy(export string) func(*table.Row, key.Resource) *v1alpha1.APIClaim {
	return func(row *table.Row, r key.Resource) *v1alpha1.APIClaim {
		if b := binding.Read(row); b != nil && b.ExportKey() == export {
			return b.Accepted(r.APIGroup(), r.Resource)
		}
		return nil
	}
}
