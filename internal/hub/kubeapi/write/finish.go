package write

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// chunk is how many objects one call of a Finish function deletes at most: far fewer than
// the event window has steps.
const chunk = 500

// deleters is how many objects of a collection are being deleted at a time.
const deleters = 8

// Progress is how far the deletion of a Space, Namespace, CRD or APIBinding has come.
type Progress int

const (
	// Idle: it is not being deleted, as far as the table knows.
	Idle Progress = iota
	// More: a chunk of its objects was deleted; call again.
	More
	// Waiting: the objects that are left wait for finalizers of others; call again when one
	// of them has changed.
	Waiting
	// Gone: its objects are gone, and so is it, unless it has other finalizers.
	Gone
)

// FinishNamespace deletes, one by one, objects of a namespace that is being
// deleted, and in the end the namespace. It is safe to call at any time.
func (s *Server) FinishNamespace(ctx context.Context, space key.Space, name string) (Progress, error) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.Namespaces, Name: name}}
	return s.finish(ctx, o, func(state *table.Snapshot, fn func(*table.Row) bool) {
		ascendNamespace(state, space, name, fn)
	})
}

// FinishCRD does the same for the objects of a CRD. Afterwards SettleNames may find free
// names.
func (s *Server) FinishCRD(ctx context.Context, space key.Space, name string) (Progress, error) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.CRDs, Name: name}}
	plural, group, ok := strings.Cut(name, ".")
	if !ok {
		return Idle, fmt.Errorf("finish CRD %q: name has no group", name)
	}
	return s.finish(ctx, o, func(state *table.Snapshot, fn func(*table.Row) bool) {
		r := key.NewResource(group, plural)
		if !boundIn(state, space, r) { // otherwise the CRD never got the name
			state.Ascend(key.ResourcePrefix(space, r), fn)
		}
	})
}

// FinishSpace deletes a chunk of the objects of a space that is being deleted, whatever
// finalizers they have, and in the end the Space. Many objects go in one revision, so the
// watches of the space must have ended before.
func (s *Server) FinishSpace(ctx context.Context, space key.Space) (Progress, error) {
	o := key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Spaces, Name: string(space)}}
	row, _ := s.config.Table.Get(o.Key())
	if row == nil || !row.Meta.Deleting || space == key.Root {
		return Idle, nil
	}
	var prefix string
	var r *clientv3.GetResponse
	for _, part := range []string{firstToLeave(s.config.Table.Snapshot(), space), key.SpacePrefix(space)} {
		var err error
		prefix = s.config.Prefix + part
		r, err = s.client.KV.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(chunk))
		if err != nil {
			return Idle, fmt.Errorf("list the keys of space %q: %w", space, err)
		}
		if len(r.Kvs) > 0 { // otherwise the table still shows what is gone
			break
		}
	}
	if len(r.Kvs) == 0 {
		return Gone, s.release(ctx, o, row)
	}
	last := string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	// The table may show a space that is long gone and was created anew.
	done, err := s.client.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.etcdKey(o)), "=", row.ModRev)).
		Then(clientv3.OpDelete(prefix, clientv3.WithRange(last))).Commit()
	if err != nil {
		return Idle, fmt.Errorf("delete %d keys of space %q: %w", len(r.Kvs), space, err)
	}
	return More, s.config.Table.WaitFor(ctx, done.Header.Revision)
}

// finish deletes the next objects of an owner's content, which each yields.
//
// The table shows revisions in order, and nothing is created in an owner after it was
// marked as being deleted: a state that shows the mark and no content proves that there is
// none.
func (s *Server) finish(ctx context.Context, o key.Object, each func(*table.Snapshot, func(*table.Row) bool)) (Progress, error) {
	state := s.config.Table.Snapshot()
	row := state.Get(o.Key())
	if row == nil || !row.Meta.Deleting {
		return Idle, nil
	}
	var (
		content []*table.Row
		held    = remains{finalizers: map[string]int{}, resources: map[string]int{}}
	)
	var rank key.Rank
	each(state, func(row *table.Row) bool {
		if row.Meta.Deleting && hasFinalizers(row) {
			held.add(row)
			return true
		}
		now := rankOf(row)
		if len(content) > 0 && now != rank { // each rank goes in revisions of its own
			return false
		}
		rank, content = now, append(content, row)
		return len(content) < chunk
	})
	switch {
	case len(content) > 0:
		if err := s.reapAll(ctx, o.Identity, content); err != nil {
			return Idle, fmt.Errorf("delete content of %q: %w", o.Path(), err)
		}
		return More, nil
	case held.objects > 0:
		return Waiting, s.explain(ctx, o, held)
	}
	if len(gjson.GetBytes(row.Value, "metadata.finalizers").Array()) > 1 { // it stays, without content
		if err := s.explain(ctx, o, held); err != nil {
			return Idle, err
		}
	}
	return Gone, s.release(ctx, o, row)
}

// reapAll deletes objects with what owns them, a few at a time, since one waits mostly for the
// disk, and returns when the table shows that they are gone or marked. One that can't go yet
// keeps no other.
func (s *Server) reapAll(ctx context.Context, with key.Identity, rows []*table.Row) error {
	var last atomic.Int64
	var group errgroup.Group
	group.SetLimit(deleters)
	for _, row := range rows {
		group.Go(func() error {
			rev, err := s.reap(ctx, row, with)
			for was := last.Load(); rev > was && !last.CompareAndSwap(was, rev); was = last.Load() {
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.config.Table.WaitFor(ctx, last.Load())
}

// remains is what is left of an owner's content.
type remains struct {
	objects int
	// finalizers and resources say how many objects have each.
	finalizers, resources map[string]int
}

func (r *remains) add(row *table.Row) {
	r.objects++
	if o, err := key.ParseObject(row.Key); err == nil {
		r.resources[o.Resource.Resource+"."+o.APIGroup()]++ // as Kubernetes has it, also for the core group
	}
	gjson.GetBytes(row.Value, "metadata.finalizers").ForEach(func(_, f gjson.Result) bool {
		r.finalizers[f.String()]++
		return true
	})
}

// summary lists the counts in order of their names.
func summary(counts map[string]int, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// ascendNamespace calls fn for every object in a namespace of a space, in the order in which
// they are deleted.
func ascendNamespace(state *table.Snapshot, space key.Space, namespace string, fn func(*table.Row) bool) {
	for _, r := range leavingResources(state, space) {
		more := true
		state.Ascend(key.NamespacePrefix(space, r, namespace), func(row *table.Row) bool {
			more = fn(row)
			return more
		})
		if !more {
			return
		}
	}
}
