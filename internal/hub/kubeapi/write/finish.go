package write

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/apis/v1alpha1"
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

// Finisher completes the deletions of objects that own others, and of objects that wait. Controllers
// call it; its functions are safe to call at any time.
type Finisher struct {
	rewriter
	// explain sets the conditions of an owner to the objects for which its deletion waits.
	explain func(ctx context.Context, o key.Object, held remains) error
}

// FinishNamespace deletes objects of a namespace that is being deleted, and finally the namespace. It
// is safe to call at any time.
func (f *Finisher) FinishNamespace(ctx context.Context, space key.Space, name string) (Progress, error) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.Namespaces, Name: name}}
	return f.finish(ctx, o)
}

// FinishCRD is FinishNamespace for a CRD. Afterwards, its names are free for SettleNames.
func (f *Finisher) FinishCRD(ctx context.Context, space key.Space, name string) (Progress, error) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.CRDs, Name: name}}
	if !strings.Contains(name, ".") {
		return Idle, fmt.Errorf("finish CRD %q: name has no group", name)
	}
	return f.finish(ctx, o)
}

// FinishSpace deletes a chunk of the objects of a space that is being deleted, even with finalizers,
// and finally the Space. It deletes many objects in one revision, so all watches of the space must
// have ended before.
func (f *Finisher) FinishSpace(ctx context.Context, space key.Space) (Progress, error) {
	o := key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Spaces, Name: string(space)}}
	row, _ := f.table.Get(o.Key())
	if row == nil || !row.Meta.Deleting || space == key.Root {
		return Idle, nil
	}
	var prefix string
	var r *clientv3.GetResponse
	for _, tablePrefix := range []string{firstToLeave(f.table.Snapshot(), space), key.SpacePrefix(space)} {
		var err error
		prefix = f.prefix + tablePrefix
		r, err = f.client.KV.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(chunk))
		if err != nil {
			return Idle, fmt.Errorf("list the keys of space %q: %w", space, err)
		}
		if len(r.Kvs) > 0 { // if not, the table is behind
			break
		}
	}
	if len(r.Kvs) == 0 {
		return Gone, f.release(ctx, o, row)
	}
	last := string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	// The table may be behind, and the space may have been created again.
	done, err := f.client.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(f.prefix+o.Key()), "=", row.ModRev)).
		Then(clientv3.OpDelete(prefix, clientv3.WithRange(last))).Commit()
	if err != nil {
		return Idle, fmt.Errorf("delete %d keys of space %q: %w", len(r.Kvs), space, err)
	}
	return More, f.table.WaitFor(ctx, done.Header.Revision)
}

// FinishBinding deletes the objects of an APIBinding that is being deleted, and finally the binding.
// Afterwards, its names are free for other definitions of the space. It is safe to call at any time.
func (f *Finisher) FinishBinding(ctx context.Context, space key.Space, name string) (Progress, error) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.APIBindings, Name: name}}
	return f.finish(ctx, o)
}

// FinishPod completes the deletion of a Pod that was left between its two steps by a crash or a lost
// connection. It returns Waiting while the original request may still complete the deletion.
func (f *Finisher) FinishPod(ctx context.Context, o key.Object) (Progress, error) {
	row, _ := f.table.Get(o.Key())
	if !LeftBehind(row) {
		return Idle, nil
	}
	// An invalid or future time does not delay the deletion.
	marked, _ := time.Parse(time.RFC3339, gjson.GetBytes(row.Value, "metadata.deletionTimestamp").String())
	if age := f.now().Sub(marked); age >= 0 && age < stepsTimeout {
		return Waiting, nil
	}
	rev, err := f.reap(ctx, row, key.Identity{})
	if err != nil {
		return Idle, fmt.Errorf("end the deletion of %q: %w", o.Path(), err)
	}
	return Gone, f.table.WaitFor(ctx, rev)
}

// FinishRemoval removes the removal finalizer of an object that its locations have removed. Without
// other finalizers, the object is deleted. It ignores a newer object of the same name.
func (f *Finisher) FinishRemoval(ctx context.Context, row *table.Row) error {
	rev, err := f.rewrite(ctx, row, func(d document) (change, error) {
		return d.without(v1alpha1.RemovalFinalizer)
	})
	if err != nil {
		return fmt.Errorf("end the wait of %q: %w", row.Key, err)
	}
	return f.table.WaitFor(ctx, rev)
}

// finish deletes the next objects of an owner's content.
//
// The table applies revisions in order, and no object is created in an owner that is being deleted.
// So a state with the deletion timestamp and without content proves that there is no content.
func (f *Finisher) finish(ctx context.Context, o key.Object) (Progress, error) {
	state := f.table.Snapshot()
	row := state.Get(o.Key())
	if row == nil || !row.Meta.Deleting {
		return Idle, nil
	}
	var (
		content []*table.Row
		held    = remains{finalizers: map[string]int{}, resources: map[string]int{}}
	)
	var rank key.Rank
	ascendContent(state, o, func(row *table.Row) bool {
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
		if err := f.reapAll(ctx, o.Identity, content); err != nil {
			return Idle, fmt.Errorf("delete content of %q: %w", o.Path(), err)
		}
		return More, nil
	case held.objects > 0:
		return Waiting, f.explain(ctx, o, held)
	}
	if len(gjson.GetBytes(row.Value, "metadata.finalizers").Array()) > 1 { // other finalizers keep it
		if err := f.explain(ctx, o, held); err != nil {
			return Idle, err
		}
	}
	return Gone, f.release(ctx, o, row)
}

// reapAll deletes objects of an owner concurrently, because a deletion mostly waits for the disk. It
// returns when the table contains all changes. If an object can't be deleted, the others still are.
func (f *Finisher) reapAll(ctx context.Context, with key.Identity, rows []*table.Row) error {
	var last atomic.Int64
	var group errgroup.Group
	group.SetLimit(deleters)
	for _, row := range rows {
		group.Go(func() error {
			rev, err := f.reap(ctx, row, with)
			for current := last.Load(); rev > current && !last.CompareAndSwap(current, rev); current = last.Load() {
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return f.table.WaitFor(ctx, last.Load())
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
	gjson.GetBytes(row.Value, "metadata.finalizers").ForEach(func(_, finalizer gjson.Result) bool {
		r.finalizers[finalizer.String()]++
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

// ascendContent calls fn for the objects that are deleted with a Space, Namespace, CRD or APIBinding,
// until it returns false. The objects of a Namespace are in the order of deletion.
func ascendContent(state *table.Snapshot, owner key.Object, fn func(*table.Row) bool) {
	more := true
	each := func(row *table.Row) bool {
		more = fn(row)
		return more
	}
	switch owner.Resource {
	case key.Spaces:
		state.Ascend(key.SpacePrefix(key.Space(owner.Name)), each)
	case key.Namespaces:
		ascendNamespace(state, owner.Space, owner.Name, fn)
	case key.CRDs:
		plural, group, _ := strings.Cut(owner.Name, ".")
		r := key.NewResource(group, plural)
		if !boundIn(state, owner.Space, r) { // otherwise the CRD never got the name
			state.Ascend(key.ResourcePrefix(owner.Space, r), each)
		}
	case key.APIBindings:
		for _, r := range boundBy(state.Get(owner.Key())) {
			if more {
				state.Ascend(key.ResourcePrefix(owner.Space, r), each)
			}
		}
	}
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
