package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// Lease is a hub's proof to the log that it lives: what was written under it goes, all at
// once, when the log has not heard of the hub for its time. Keeping it is no revision.
type Lease struct {
	log *Log
	id  clientv3.LeaseID
	ttl time.Duration
	// ctx ends when the lease is lost, as far as this process knows.
	ctx  context.Context
	lose context.CancelFunc
}

// ErrLease says that a lease is no more.
var ErrLease = errors.New("the hub's lease has ended")

// Grant gives a lease that ends when it is not kept for a time, of seconds. It fails with
// ErrFull if etcd itself has no room.
func (l *Log) Grant(ctx context.Context, ttl time.Duration) (*Lease, error) {
	r, err := l.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return nil, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for a lease: %w", err)
	}
	x := &Lease{log: l, id: r.ID, ttl: time.Duration(r.TTL) * time.Second}
	x.ctx, x.lose = context.WithCancel(context.Background())
	return x, nil
}

// Keep keeps the lease until the context ends or the lease does: the log did not answer for
// its time, or has none of it. heard is called whenever the log has answered.
func (x *Lease) Keep(ctx context.Context, heard func()) error {
	defer x.lose()
	answers, err := x.log.client.KeepAlive(ctx, x.id)
	if err != nil {
		return fmt.Errorf("keep the lease: %w", err)
	}
	for {
		select {
		case _, ok := <-answers:
			if !ok {
				return ErrLease
			}
			heard()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Ended is closed when the lease has ended, as far as this process knows. The log may know
// it earlier, or later.
func (x *Lease) Ended() <-chan struct{} { return x.ctx.Done() }

// Revoke ends the lease, and what was written under it goes at once.
func (x *Lease) Revoke(ctx context.Context) error {
	x.lose()
	if _, err := x.log.client.Revoke(ctx, x.id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("give the lease back: %w", err)
	}
	return nil
}

// Embedded says that the log is in this process, which alone can use it.
func (l *Log) Embedded() bool { return l.server != nil }

// ErrDeposed says that a write was not made since its writer is no longer elected.
var ErrDeposed = errors.New("this hub is no longer elected to write that")

// guardedBy is the key of a context's guard.
type guardedBy struct{}

// Guarded has everything that is written by a context depend on a guard, whatever else it
// depends on: it fails with ErrDeposed when that does not hold.
func Guarded(ctx context.Context, g Guard) context.Context {
	return context.WithValue(ctx, guardedBy{}, g)
}

// guarded is the guard of a context, as etcd compares it; nil: it has none.
func guarded(ctx context.Context) *pb.Compare {
	g, ok := ctx.Value(guardedBy{}).(Guard)
	if !ok {
		return nil
	}
	c := pb.Compare(clientv3.Compare(clientv3.CreateRevision(Prefix+g.Key), "=", g.CreateRev))
	return &c
}

// ErrMoved says that a write was not made since what it was decided by has changed.
var ErrMoved = errors.New("what the write was decided by has changed")

// unmoved is the key of a context's ranges, as etcd compares them.
type unmoved struct{}

// Unmoved has every transaction of a context depend on nothing below some prefixes having been
// written after a revision; what was deleted does not count. It fails with ErrMoved then.
func Unmoved(ctx context.Context, rev int64, prefixes ...string) context.Context {
	var all []*pb.Compare
	for _, prefix := range prefixes {
		c := pb.Compare(clientv3.Compare(clientv3.ModRevision(Prefix+prefix), "<", rev+1).WithPrefix())
		all = append(all, &c)
	}
	return context.WithValue(ctx, unmoved{}, all)
}

// txn makes a transaction, which is not sealed any more, if what its context depends on is so.
func (s sealedKV) txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	var why []error // of those that in is within, the innermost first
	within := func(compare []*pb.Compare, err error) {
		in = &pb.TxnRequest{Compare: compare, Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: in}}}}
		why = append(why, err)
	}
	if ranges, ok := ctx.Value(unmoved{}).([]*pb.Compare); ok {
		within(ranges, ErrMoved)
	}
	if guard := guarded(ctx); guard != nil {
		within([]*pb.Compare{guard}, ErrDeposed)
	}
	r, err := s.KVClient.Txn(ctx, in, opts...)
	for i := len(why) - 1; i >= 0 && err == nil; i-- {
		if !r.Succeeded {
			return nil, why[i]
		}
		header := r.Header
		r = r.Responses[0].GetResponseTxn()
		r.Header = header
	}
	return r, err
}

// alone makes a transaction of one request that is none if its context has a guard; nil: it
// has none.
func (s sealedKV) alone(ctx context.Context, op *pb.RequestOp) (*pb.ResponseOp, *pb.ResponseHeader, error) {
	if guarded(ctx) == nil {
		return nil, nil, nil
	}
	r, err := s.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
	if err != nil {
		return nil, nil, err
	}
	return r.Responses[0], r.Header, nil
}
