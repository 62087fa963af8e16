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

// chunk limits the objects that one call of a Finish function deletes. It is much smaller than the
// event window of the table.
const chunk = 500

// deleters is the number of objects that are deleted concurrently.
const deleters = 8

// Progress is the state of the deletion of a Space, Namespace, CRD or APIBinding.
type Progress int

const (
	// Idle: the table does not show a deletion.
	Idle Progress = iota
	// More: a chunk of the objects was deleted. Call again.
	More
	// Waiting: the remaining objects have finalizers. Call again when one of them changes.
	Waiting
	// Gone: the content is deleted, and the owner unless it has other finalizers.
	Gone
)

// FinishNamespace deletes objects of a namespace that is being deleted, and finally the namespace. It
// is safe to call at any time.
func (s *Server) FinishNamespace(ctx context.Context, space key.Space, name string) (Progress, error) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.Namespaces, Name: name}}
	return s.finish(ctx, o, func(state *table.Snapshot, fn func(*table.Row) bool) {
		ascendNamespace(state, space, name, fn)
	})
}

// FinishCRD is FinishNamespace for a CRD. Afterwards, its names are free for SettleNames.
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

// FinishSpace deletes a chunk of the objects of a space that is being deleted, even with finalizers,
// and finally the Space. It deletes many objects in one revision, so all watches of the space must
// have ended before.
func (s *Server) FinishSpace(ctx context.Context, space key.Space) (Progress, error) {
	o := key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Spaces, Name: string(space)}}
	row, _ := s.config.Table.Get(o.Key())
	if row == nil || !row.Meta.Deleting || space == key.Root {
		return Idle, nil
	}
	var prefix string
	var r *clientv3.GetResponse
	for _, tablePrefix := range []string{firstToLeave(s.config.Table.Snapshot(), space), key.SpacePrefix(space)} {
		var err error
		prefix = s.config.Prefix + tablePrefix
		r, err = s.client.KV.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(chunk))
		if err != nil {
			return Idle, fmt.Errorf("list the keys of space %q: %w", space, err)
		}
		if len(r.Kvs) > 0 { // if not, the table is behind
			break
		}
	}
	if len(r.Kvs) == 0 {
		return Gone, s.release(ctx, o, row)
	}
	last := string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	// The table may be behind, and the space may have been created again.
	done, err := s.client.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.etcdKey(o)), "=", row.ModRev)).
		Then(clientv3.OpDelete(prefix, clientv3.WithRange(last))).Commit()
	if err != nil {
		return Idle, fmt.Errorf("delete %d keys of space %q: %w", len(r.Kvs), space, err)
	}
	return More, s.config.Table.WaitFor(ctx, done.Header.Revision)
}

// finish deletes the next objects of an owner's content, which each enumerates.
//
// The table applies revisions in order, and no object is created in an owner that is being deleted.
// So a state with the deletion timestamp and without content proves that there is no content.
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
		if len(content) > 0 && now != rank { // a revision contains objects of one rank only
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
	if len(gjson.GetBytes(row.Value, "metadata.finalizers").Array()) > 1 { // other finalizers keep it
		if err := s.explain(ctx, o, held); err != nil {
			return Idle, err
		}
	}
	return Gone, s.release(ctx, o, row)
}

// reapAll deletes objects of an owner concurrently, because a deletion mostly waits for the disk. It
// returns when the table contains all changes. If an object can't be deleted, the others still are.
func (s *Server) reapAll(ctx context.Context, with key.Identity, rows []*table.Row) error {
	var last atomic.Int64
	var group errgroup.Group
	group.SetLimit(deleters)
	for _, row := range rows {
		group.Go(func() error {
			rev, err := s.reap(ctx, row, with)
			for current := last.Load(); rev > current && !last.CompareAndSwap(current, rev); current = last.Load() {
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.config.Table.WaitFor(ctx, last.Load())
}

// remains counts the remaining objects of an owner.
type remains struct {
	objects int
	// finalizers and resources count the objects by finalizer and by resource.
	finalizers, resources map[string]int
}

func (r *remains) add(row *table.Row) {
	r.objects++
	if o, err := key.ParseObject(row.Key); err == nil {
		r.resources[o.Resource.Resource+"."+o.APIGroup()]++ // Kubernetes writes the dot for the core group, too
	}
	gjson.GetBytes(row.Value, "metadata.finalizers").ForEach(func(_, f gjson.Result) bool {
		r.finalizers[f.String()]++
		return true
	})
}

// summary lists the counts, sorted by name.
func summary(counts map[string]int, format string) string {
	var counted []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		counted = append(counted, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(counted, ", ")
}

// ascendNamespace calls fn for each object in a namespace of a space, in the order of deletion.
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
