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

// stillAccepted says whether what a shelf had at a revision, and has had since, may be read
// now. What may be read of a claimed kind is judged by what is accepted now, and that says
// nothing of what was on the shelf by something else.
func (r *reader) stillAccepted(rev int64) bool {
	l, ok := r.lens.(shelfLens)
	// The request may have waited since it was judged.
	return !ok || r.kind.Custom != nil || l.acceptedSince(r.server.config.Table, r.kind, min(rev, l.Judged))
}

// judgedAnew is why a state can't be read by a request that was judged before what is accepted
// changed; nil if it can.
func (r *reader) judgedAnew(st state, verb string) error {
	if r.stillAccepted(st.rev) {
		return nil
	}
	return apierrors.NewServerTimeout(r.kind.GVR.GroupResource(), verb, 1)
}

// acceptedSince says whether neither what the export claims of a kind, nor what spaces have
// accepted of that, has changed since a revision. Where there was nothing before, nothing was
// on the shelf: the first acceptance by a space has nobody start over.
func (l shelfLens) acceptedSince(t *table.Table, k *kinds.Kind, rev int64) bool {
	export, same := exportOf(t, l.Shelf), true
	now := t.Rev()
	if rev >= now {
		return true
	}
	reaches := between(t, rev, now, func(c table.Change) (more bool) {
		of := claimedBy
		if c.Row().Key != export {
			if l.Space != "" && spaceOf(c.Row()) != l.Space {
				return true
			}
			of = acceptedBy(export)
		}
		if was := of(c.Prev, k.Resource); was != nil {
			same = reflect.DeepEqual(was, of(c.Cur, k.Resource))
		}
		return same
	}, table.KeyTopic(export), table.ResourceTopic(key.APIBindings))
	return reaches && same
}

// claimedBy is what the row of an APIExport claims of a resource; nil for nothing.
func claimedBy(row *table.Row, r key.Resource) *v1alpha1.APIClaim {
	if export := binding.ReadExport(row); export != nil {
		return binding.ClaimOf(export.Spec.Claims, r.APIGroup(), r.Resource)
	}
	return nil
}

// acceptedBy is what the row of an APIBinding has accepted of a resource; nil for nothing, or
// if the binding is to another export.
func acceptedBy(export string) func(*table.Row, key.Resource) *v1alpha1.APIClaim {
	return func(row *table.Row, r key.Resource) *v1alpha1.APIClaim {
		if b := binding.Read(row); b != nil && b.ExportKey() == export {
			return b.Accepted(r.APIGroup(), r.Resource)
		}
		return nil
	}
}
