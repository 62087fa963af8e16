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

// Op is one write of a batch. A nil Value deletes the key.
type Op struct {
	Key   string
	Value []byte
	// Under is the lease to which the key is attached: etcd deletes the key when the lease ends.
	// nil means no lease.
	Under *Lease
}

// Guard is a precondition of a batch: the key exists with this create revision, or, if CreateRev
// is 0, the key does not exist.
type Guard struct {
	Key       string
	CreateRev int64
}

// ErrGuard is returned when a guard of a batch does not hold.
var ErrGuard = errors.New("what the write depends on has changed")

const (
	maxBatchOps   = 100
	maxBatchBytes = 1 << 20
	// maxCompares is the maximum number of comparisons of changes in one transaction in an external
	// etcd, whose default limit is 128. ownCompares is that of the embedded etcd, whose limit is
	// ownTxnOps: a full batch in which each change has a guard of its own. Both leave some
	// comparisons for the preconditions of the context.
	maxCompares = 120
	ownCompares = 2 * maxBatchOps
	ownTxnOps   = 256
)

// Write makes writes, in order, in as few transactions as the limits on their size allow,
// and returns the revision of the last transaction. It stops with ErrGuard at the first
// transaction for which a guard does not hold, and with ErrFull if etcd's quota is exhausted.
//
// An object must be written by Put, in a transaction of its own: watchers could not resume between
// two changes of one revision.
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

// Change is a write that is made only if its key was not written since the writer read it.
type Change struct {
	Op
	// Seen is the modification revision that the writer has read; 0 if the key did not exist.
	Seen int64
	// Keep makes the change a check only: nothing is written, but the key must be unchanged.
	Keep bool
	// While, if its Key is set, is a guard of the change: if it does not hold, the change is stale.
	While Guard
}

// WriteChanges is Write for changes. It omits a change if its key was written meanwhile, or if its
// guard does not hold, and returns the keys of omitted changes as stale.
//
// Each transaction has the comparisons of all its changes. If one fails, the keys are read to find
// the stale changes, and the transaction is repeated without them. Nested transactions, one for each
// change, would avoid that, but etcd does not count their writes toward its quota.
func (l *Log) WriteChanges(ctx context.Context, changes []Change) (rev int64, stale []string, err error) {
	for len(changes) > 0 {
		n := batchSize(changes, l.server != nil)
		batch := slices.Clone(changes[:n])
		for changes = changes[n:]; len(batch) > 0; {
			written, err := l.change(ctx, batch)
			if err == nil {
				rev = written
				break
			}
			if !errors.Is(err, ErrGuard) {
				return rev, stale, err
			}
			read, moved, err := l.moved(ctx, batch)
			if err != nil {
				return rev, stale, err
			}
			rev, stale = read, append(stale, moved...)
			batch = slices.DeleteFunc(batch, func(c Change) bool { return slices.Contains(moved, c.Key) })
		}
	}
	return rev, stale, nil
}

// batchSize returns how many of the first changes, at least one, fit into a transaction together
// with their comparisons.
func batchSize(changes []Change, embedded bool) int {
	most := maxCompares
	if embedded {
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

// change makes changes in one transaction. It returns ErrGuard if a key was written meanwhile or a
// guard does not hold.
func (l *Log) change(ctx context.Context, changes []Change) (rev int64, err error) {
	conditions, writes := make([]clientv3.Cmp, 0, len(changes)+1), make([]clientv3.Op, 0, len(changes))
	for _, c := range changes {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(Prefix+c.Key), "=", c.Seen))
		if !c.Keep {
			writes = append(writes, c.op())
		}
	}
	if len(writes) == 0 { // etcd does not linearize a transaction without operations
		writes = append(writes, clientv3.OpGet(Prefix+changes[0].Key, clientv3.WithCountOnly()))
	}
	r, err := l.transact(ctx, changes[0].Key, writes, guardsOf(changes), conditions...)
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// moved returns the keys of changes whose key was written meanwhile, or whose guard does not hold,
// and the revision at which it read them. A failed comparison fails here, too, since revisions only
// grow.
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
	current := make([]*mvccpb.KeyValue, len(r.Responses))
	for i, one := range r.Responses {
		if current[i] = new(mvccpb.KeyValue); len(one.GetResponseRange().Kvs) > 0 {
			current[i] = one.GetResponseRange().Kvs[0]
		}
	}
	failed := map[Guard]bool{}
	for i, g := range guards {
		failed[g] = current[i].CreateRevision != g.CreateRev
	}
	for i, c := range changes {
		if failed[c.While] || current[len(guards)+i].ModRevision != c.Seen {
			moved = append(moved, c.Key)
		}
	}
	return r.Header.Revision, moved, nil
}

// guardsOf returns the guards of changes without duplicates.
func guardsOf(changes []Change) []Guard {
	var all []Guard
	for _, c := range changes {
		if c.While.Key != "" && !slices.Contains(all, c.While) {
			all = append(all, c.While)
		}
	}
	return all
}

// transact makes one transaction if all guards and conditions hold; else it returns ErrGuard. first
// is a key for error messages.
func (l *Log) transact(ctx context.Context, first string, txn []clientv3.Op, guards []Guard, conditions ...clientv3.Cmp) (*clientv3.TxnResponse, error) {
	for _, g := range guards {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(Prefix+g.Key), "=", g.CreateRev))
	}
	if err := l.continuity.wait(ctx, true); err != nil {
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

// fitting returns how many of the first n writes, at least one, fit into a transaction.
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
