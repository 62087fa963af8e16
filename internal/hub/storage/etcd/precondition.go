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
	// ErrDeposed is returned when a write was not made because its writer is no longer elected.
	ErrDeposed = errors.New("this hub is no longer elected to write that")
	// ErrMoved is returned when a write was not made because keys on which its writer based it have
	// changed.
	ErrMoved = errors.New("what the write was decided by has changed")
)

// precondition is a condition of all transactions of a context, besides their own comparisons.
type precondition struct {
	compare []*pb.Compare
	// failed is the error of a transaction for which the precondition does not hold.
	failed error
}

// guardedBy and unmoved are the keys of the preconditions in a context.
type (
	guardedBy struct{}
	unmoved   struct{}
)

// Guarded returns a context whose writes are made only if the guard holds, and else return
// ErrDeposed.
func Guarded(ctx context.Context, g Guard) context.Context {
	c := pb.Compare(clientv3.Compare(clientv3.CreateRevision(Prefix+g.Key), "=", g.CreateRev))
	return context.WithValue(ctx, guardedBy{}, precondition{[]*pb.Compare{&c}, ErrDeposed})
}

// Unmoved returns a context whose transactions return ErrMoved if a key below one of the prefixes was
// written after rev. It does not notice deletions. It replaces an earlier Unmoved or Unjoined.
func Unmoved(ctx context.Context, rev int64, prefixes ...string) context.Context {
	var all []*pb.Compare
	for _, prefix := range prefixes {
		c := pb.Compare(clientv3.Compare(clientv3.ModRevision(Prefix+prefix), "<", rev+1).WithPrefix())
		all = append(all, &c)
	}
	return context.WithValue(ctx, unmoved{}, precondition{all, ErrMoved})
}

// Unjoined returns a context whose transactions return ErrMoved if a key below the prefix was created
// after rev. It does not notice updates and deletions. It replaces an earlier Unmoved or Unjoined.
func Unjoined(ctx context.Context, rev int64, prefix string) context.Context {
	c := pb.Compare(clientv3.Compare(clientv3.CreateRevision(Prefix+prefix), "<", rev+1).WithPrefix())
	return context.WithValue(ctx, unmoved{}, precondition{[]*pb.Compare{&c}, ErrMoved})
}

// preconditions returns the preconditions of a context. If several fail, the error is that of the
// first.
func preconditions(ctx context.Context) []precondition {
	var all []precondition
	for _, k := range []any{guardedBy{}, unmoved{}} {
		if p, ok := ctx.Value(k).(precondition); ok {
			all = append(all, p)
		}
	}
	return all
}

// txn makes a transaction, whose values are already encrypted, if the preconditions of its context
// hold.
//
// One transaction has all comparisons: nested transactions would work, too, but etcd does not count
// their writes toward its quota. If a comparison fails, the failure branch repeats the comparisons of
// the preconditions in nested transactions, so that the response shows which one failed.
func (s sealedKV) txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	all := preconditions(ctx)
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
	nested := r
	for _, p := range all {
		if nested = nested.Responses[0].GetResponseTxn(); !nested.Succeeded {
			return nil, p.failed
		}
	}
	return &pb.TxnResponse{Header: r.Header, Responses: nested.Responses}, nil
}

// guarded makes a transaction of one operation if the context has a guard. Without a guard it does
// nothing and returns nil.
func (s sealedKV) guarded(ctx context.Context, op *pb.RequestOp) (*pb.ResponseOp, *pb.ResponseHeader, error) {
	if ctx.Value(guardedBy{}) == nil {
		return nil, nil, nil
	}
	r, err := s.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
	if err != nil {
		return nil, nil, err
	}
	return r.Responses[0], r.Header, nil
}
