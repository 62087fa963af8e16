package etcd

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

var (
	// ErrDeposed says that a write was not made since its writer is no longer elected.
	ErrDeposed = errors.New("this hub is no longer elected to write that")
	// ErrMoved says that a write was not made since what it was decided by has changed.
	ErrMoved = errors.New("what the write was decided by has changed")
)

// premise is what all that is written by a context depends on, whatever else it depends on.
type premise struct {
	compare []*pb.Compare
	// failed says that it does not hold.
	failed error
}

// guardedBy and unmoved are the keys of a context's premises.
type (
	guardedBy struct{}
	unmoved   struct{}
)

// Guarded has everything that is written by a context depend on a guard: it fails with
// ErrDeposed when that does not hold.
func Guarded(ctx context.Context, g Guard) context.Context {
	c := pb.Compare(clientv3.Compare(clientv3.CreateRevision(Prefix+g.Key), "=", g.CreateRev))
	return context.WithValue(ctx, guardedBy{}, premise{[]*pb.Compare{&c}, ErrDeposed})
}

// Unmoved has every transaction of a context depend on nothing below some prefixes having been
// written after a revision; what was deleted does not count. It fails with ErrMoved then.
func Unmoved(ctx context.Context, rev int64, prefixes ...string) context.Context {
	var all []*pb.Compare
	for _, prefix := range prefixes {
		c := pb.Compare(clientv3.Compare(clientv3.ModRevision(Prefix+prefix), "<", rev+1).WithPrefix())
		all = append(all, &c)
	}
	return context.WithValue(ctx, unmoved{}, premise{all, ErrMoved})
}

// Unjoined has every transaction of a context depend on no key below a prefix having been
// created after a revision; what was written again or deleted does not count. It fails with
// ErrMoved then.
func Unjoined(ctx context.Context, rev int64, prefix string) context.Context {
	c := pb.Compare(clientv3.Compare(clientv3.CreateRevision(Prefix+prefix), "<", rev+1).WithPrefix())
	return context.WithValue(ctx, unmoved{}, premise{[]*pb.Compare{&c}, ErrMoved})
}

// premises are those of a context, in the order in which they are said to have failed.
func premises(ctx context.Context) []premise {
	var all []premise
	for _, k := range []any{guardedBy{}, unmoved{}} {
		if p, ok := ctx.Value(k).(premise); ok {
			all = append(all, p)
		}
	}
	return all
}

// txn makes a transaction, which is not sealed any more, if the premises of its context hold.
//
// All is compared at once: a transaction within another one would be right as well, but etcd
// counts nothing of what that writes toward its quota. If something does not hold, the other
// branch compares the premises again, one within the other, so that its answer says which.
func (s sealedKV) txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	all := premises(ctx)
	if len(all) == 0 {
		return s.KVClient.Txn(ctx, in, opts...)
	}
	whole := &pb.TxnRequest{Compare: slices.Clone(in.Compare), Success: in.Success, Failure: in.Failure}
	for _, p := range slices.Backward(all) {
		again := &pb.TxnRequest{Compare: p.compare, Success: whole.Failure}
		whole.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: again}}}
		whole.Compare = append(whole.Compare, p.compare...)
	}
	r, err := s.KVClient.Txn(ctx, whole, opts...)
	if err != nil || r.Succeeded {
		return r, err
	}
	answer := r
	for _, p := range all {
		if answer = answer.Responses[0].GetResponseTxn(); !answer.Succeeded {
			return nil, p.failed
		}
	}
	return &pb.TxnResponse{Header: r.Header, Responses: answer.Responses}, nil
}

// alone makes a transaction of one request that is none if its context has a guard; nil: it
// has none.
func (s sealedKV) alone(ctx context.Context, op *pb.RequestOp) (*pb.ResponseOp, *pb.ResponseHeader, error) {
	if ctx.Value(guardedBy{}) == nil {
		return nil, nil, nil
	}
	r, err := s.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
	if err != nil {
		return nil, nil, err
	}
	return r.Responses[0], r.Header, nil
}
