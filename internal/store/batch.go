package store

import (
	"context"
	"errors"
	"fmt"

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
}

// WriteChanges is Write for changes. Changes of keys that are no longer as they were seen
// are left out, and returned as stale.
func (l *Log) WriteChanges(ctx context.Context, changes []Change, guards ...Guard) (rev int64, stale []string, err error) {
	for len(changes) > 0 {
		n := fitting(len(changes), func(i int) Op { return changes[i].Op })
		txn := make([]clientv3.Op, 0, n)
		for _, c := range changes[:n] {
			var then []clientv3.Op
			if !c.Keep {
				then = []clientv3.Op{c.op()}
			}
			seen := clientv3.Compare(clientv3.ModRevision(Prefix+c.Key), "=", c.Seen)
			txn = append(txn, clientv3.OpTxn([]clientv3.Cmp{seen}, then, nil))
		}
		r, err := l.transact(ctx, changes[0].Key, txn, guards)
		if err != nil {
			return rev, stale, err
		}
		for i, one := range r.Responses {
			if !one.GetResponseTxn().GetSucceeded() {
				stale = append(stale, changes[i].Key)
			}
		}
		rev, changes = r.Header.Revision, changes[n:]
	}
	return rev, stale, nil
}

// transact makes one transaction if all guards hold.
func (l *Log) transact(ctx context.Context, first string, txn []clientv3.Op, guards []Guard) (*clientv3.TxnResponse, error) {
	conditions := make([]clientv3.Cmp, 0, len(guards))
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
