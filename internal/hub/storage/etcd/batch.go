package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Op is one write of a batch. A nil Value deletes.
type Op struct {
	Key   string
	Value []byte
	// Under is the lease with which the key goes; nil: it stays.
	Under *Lease
}

// Guard is a condition of a batch: a key exists and was created at a revision, or, with
// revision 0, it does not exist.
type Guard struct {
	Key       string
	CreateRev int64
}

// ErrGuard says that a guard of a batch did not hold.
var ErrGuard = errors.New("what the write depends on has changed")

const (
	maxBatchOps   = 100
	maxBatchBytes = 1 << 20
	// maxCompares is how many comparisons changes share a transaction with in a cluster of etcd's,
	// which allows 128, and ownCompares in an embedded one, which allows ownTxnOps: what a full
	// batch compares if each change has a guard of its own. Premises need some more.
	maxCompares = 120
	ownCompares = 2 * maxBatchOps
	ownTxnOps   = 256
)

// Write makes writes, in order, in as few transactions as the limits on their size allow,
// and returns the revision that holds the last one. It stops with ErrGuard at the first
// transaction for which a guard does not hold, and with ErrFull if etcd itself has no room.
//
// Objects must be written alone, by Put: their readers could not resume between two
// changes of one revision.
func (l *Log) Write(ctx context.Context, ops []Op, guards ...Guard) (int64, error) {
	var rev int64
	for len(ops) > 0 {
		n := fitting(len(ops), func(i int) Op { return ops[i] })
		txn := make([]clientv3.Op, 0, n)
		for _, op := range ops[:n] {
			txn = append(txn, op.op())
		}
		r, err := l.transact(ctx, ops[0].Key, txn, guards)
		if err != nil {
			return rev, err
		}
		rev, ops = r.Header.Revision, ops[n:]
	}
	return rev, nil
}

// Change is a write that is made only if nobody else has written its key.
type Change struct {
	Op
	// Seen is the revision at which, as the writer knows, the key was last written; 0 if it
	// does not exist.
	Seen int64
	// Keep writes nothing; it only checks that the key is as it was seen.
	Keep bool
	// While, if it has a key, is a guard of the change: without it the change is stale.
	While Guard
}

// WriteChanges is Write for changes. Changes of keys that are no longer as they were seen, or
// whose guard does not hold, are left out, and returned as stale. Each transaction compares all
// that is in it: changes that each compare, in transactions of their own within one, would not be
// counted by etcd's quota. If something has moved, it is read what, and the rest is written
// without that.
func (l *Log) WriteChanges(ctx context.Context, changes []Change) (rev int64, stale []string, err error) {
	for len(changes) > 0 {
		n := l.together(changes)
		part := slices.Clone(changes[:n])
		for changes = changes[n:]; len(part) > 0; {
			at, err := l.change(ctx, part)
			if err == nil {
				rev = at
				break
			}
			if !errors.Is(err, ErrGuard) {
				return rev, stale, err
			}
			at, moved, err := l.moved(ctx, part)
			if err != nil {
				return rev, stale, err
			}
			rev, stale = at, append(stale, moved...)
			part = slices.DeleteFunc(part, func(c Change) bool { return slices.Contains(moved, c.Key) })
		}
	}
	return rev, stale, nil
}

// together is how many of some changes, at least one, fit into a transaction with what they
// compare.
func (l *Log) together(changes []Change) int {
	most := maxCompares
	if l.server != nil {
		most = ownCompares
	}
	n := fitting(len(changes), func(i int) Op { return changes[i].Op })
	guards := map[Guard]struct{}{}
	for i, c := range changes[:n] {
		if guards[c.While] = struct{}{}; i > 0 && i+1+len(guards) > most {
			return i
		}
	}
	return n
}

// change makes changes in one transaction. It fails with ErrGuard if one of them, or a guard,
// does not hold.
func (l *Log) change(ctx context.Context, changes []Change) (rev int64, err error) {
	conditions, writes := make([]clientv3.Cmp, 0, len(changes)+1), make([]clientv3.Op, 0, len(changes))
	for _, c := range changes {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(Prefix+c.Key), "=", c.Seen))
		if !c.Keep {
			writes = append(writes, c.op())
		}
	}
	if len(writes) == 0 { // of a transaction without a request etcd asks only the member that it comes to
		writes = append(writes, clientv3.OpGet(Prefix+changes[0].Key, clientv3.WithCountOnly()))
	}
	r, err := l.transact(ctx, changes[0].Key, writes, guardsOf(changes), conditions...)
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// moved are the keys of changes that are not as they were seen, or whose guard does not hold.
// Revisions only grow, so what was not written for it is shown.
func (l *Log) moved(ctx context.Context, changes []Change) (rev int64, moved []string, err error) {
	guards := guardsOf(changes)
	reads := make([]clientv3.Op, 0, len(guards)+len(changes))
	for _, g := range guards {
		reads = append(reads, clientv3.OpGet(Prefix+g.Key, clientv3.WithKeysOnly()))
	}
	for _, c := range changes {
		reads = append(reads, clientv3.OpGet(Prefix+c.Key, clientv3.WithKeysOnly()))
	}
	r, err := l.transact(ctx, changes[0].Key, reads, nil)
	if err != nil {
		return 0, nil, err
	}
	is := make([]*mvccpb.KeyValue, len(r.Responses))
	for i, one := range r.Responses {
		if is[i] = new(mvccpb.KeyValue); len(one.GetResponseRange().Kvs) > 0 {
			is[i] = one.GetResponseRange().Kvs[0]
		}
	}
	failed := map[Guard]bool{}
	for i, g := range guards {
		failed[g] = is[i].CreateRevision != g.CreateRev
	}
	for i, c := range changes {
		if failed[c.While] || is[len(guards)+i].ModRevision != c.Seen {
			moved = append(moved, c.Key)
		}
	}
	return r.Header.Revision, moved, nil
}

// guardsOf are the guards of changes, each once.
func guardsOf(changes []Change) []Guard {
	var all []Guard
	for _, c := range changes {
		if c.While.Key != "" && !slices.Contains(all, c.While) {
			all = append(all, c.While)
		}
	}
	return all
}

// transact makes one transaction if all guards, and conditions besides, hold.
func (l *Log) transact(ctx context.Context, first string, txn []clientv3.Op, guards []Guard, conditions ...clientv3.Cmp) (*clientv3.TxnResponse, error) {
	for _, g := range guards {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(Prefix+g.Key), "=", g.CreateRev))
	}
	if err := l.reach.wait(ctx, true); err != nil {
		return nil, err
	}
	r, err := l.client.Txn(ctx).If(conditions...).Then(txn...).Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = fmt.Errorf("%w: %w", ErrLease, err)
	}
	if errors.Is(err, rpctypes.ErrNoSpace) {
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return nil, fmt.Errorf("write %d keys from %.200q on: %w", len(txn), first, err)
	}
	if !r.Succeeded {
		return nil, ErrGuard
	}
	return r, nil
}

func (o Op) op() clientv3.Op {
	if o.Value == nil {
		return clientv3.OpDelete(Prefix + o.Key)
	}
	if o.Under != nil {
		return clientv3.OpPut(Prefix+o.Key, string(o.Value), clientv3.WithLease(o.Under.id))
	}
	return clientv3.OpPut(Prefix+o.Key, string(o.Value))
}

// fitting is how many of n writes, at least one, fit into a transaction.
func fitting(n int, op func(i int) Op) int {
	size := 0
	for i := range min(n, maxBatchOps) {
		size += len(op(i).Key) + len(op(i).Value)
		if i > 0 && size > maxBatchBytes {
			return i
		}
	}
	return min(n, maxBatchOps)
}
