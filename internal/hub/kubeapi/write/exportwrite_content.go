package write

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxContentChanges limits the retries of a deletion whose space is written concurrently.
const maxContentChanges = 16

// withContent deletes an object that owns others by an export view. It fails unless the provider may
// delete the whole content of the object. remove calls allowed with the stored object before it changes
// the object. If an object of the space was written after the content was read, the transaction fails,
// and remove is called again. Afterwards the owner refuses new content.
func (p *exportWrite) withContent(ctx context.Context, name string, remove func(ctx context.Context, allowed func(runtime.Object) error) error) error {
	o := key.Object{Space: p.space, Identity: key.Identity{Resource: p.kind.Resource, Name: name}}
	for range maxContentChanges {
		if err := p.server.catchUp(ctx); err != nil {
			return fmt.Errorf("delete %q: %w", o.Path(), err)
		}
		state := p.server.config.Table.Snapshot()
		prefixes := []string{key.SpacePrefix(p.space)}
		if o.Resource == key.Spaces {
			prefixes = append(prefixes, key.SpacePrefix(key.Space(name)))
		}
		err := remove(etcd.Unmoved(ctx, state.Rev, prefixes...), func(existing runtime.Object) error {
			m, err := meta.Accessor(existing)
			if err != nil || isDeleting(m) || p.ownsContent(state, o) {
				return err
			}
			return apierrors.NewForbidden(p.kind.GVR.GroupResource(), p.called.name,
				errors.New("a deletion would also delete objects that this export view may not delete"))
		})
		if !errors.Is(err, etcd.ErrMoved) {
			return err
		}
	}
	return apierrors.NewServerTimeout(p.kind.GVR.GroupResource(), "delete", 1)
}

// ownsContent reports whether the export view contains the whole content of an owner, and its provider
// may delete it.
func (p *exportWrite) ownsContent(state *table.Snapshot, owner key.Object) bool {
	allowed := map[key.Resource]bool{}
	all := true
	ascendContent(state, owner, func(row *table.Row) bool {
		o, err := key.ParseObject(row.Key)
		if err != nil {
			all = false
			return false
		}
		may, known := allowed[o.Resource]
		if !known {
			may = p.server.config.Exports.Allowed(p.ID, o.Space, o.Resource, "delete")
			allowed[o.Resource] = may
		}
		all = may && row.IsShownIn(p.ID)
		return all
	})
	return all
}
