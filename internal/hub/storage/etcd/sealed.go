package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// Sealer says how values are kept. It must be safe for concurrent use.
type Sealer interface {
	// Covers says whether values of a key may be kept in another way than they are.
	Covers(k string) bool
	// Seal is how a value of a key is kept.
	Seal(ctx context.Context, k string, plain []byte) ([]byte, error)
	Opener
}

// Opener gives values from how they are kept.
type Opener interface {
	// Open gives the value of a key. stale says that it would be kept in another way now.
	Open(ctx context.Context, k string, kept []byte) (plain []byte, stale bool, err error)
}

// ErrSealed says that a value of the log can't be read.
var ErrSealed = errors.New("a value of the log can't be read")

// plain keeps values as they are.
type plain struct{}

func (plain) Covers(string) bool { return false }

func (plain) Seal(_ context.Context, _ string, value []byte) ([]byte, error) { return value, nil }

func (plain) Open(_ context.Context, _ string, kept []byte) ([]byte, bool, error) {
	return kept, false, nil
}

// sealedKV seals what is put into etcd and opens what is read from it: everything that
// writes or reads the log goes through it, but for the tail and what changes keys, which
// ask how a value is kept. Requests and answers are changed in place: the client makes
// them anew each time.
type sealedKV struct {
	pb.KVClient
	sealer Sealer
}

// sealClient puts a KV that seals in the place of a client's, above the wire, and returns the
// one before.
func sealClient(c *clientv3.Client, wire pb.KVClient, sealer Sealer) (raw clientv3.KV) {
	raw = c.KV
	c.KV = clientv3.NewKVFromKVClient(sealedKV{wire, sealer}, c)
	return raw
}

func (s sealedKV) Range(ctx context.Context, in *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	r, err := s.KVClient.Range(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return r, s.openAll(ctx, r.Kvs)
}

func (s sealedKV) Put(ctx context.Context, in *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	if err := s.sealPut(ctx, in); err != nil {
		return nil, err
	}
	of, header, err := s.alone(ctx, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: in}})
	if err != nil {
		return nil, err
	}
	if of != nil {
		r := of.GetResponsePut()
		r.Header = header
		return r, s.open(ctx, r.PrevKv)
	}
	r, err := s.KVClient.Put(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return r, s.open(ctx, r.PrevKv)
}

func (s sealedKV) DeleteRange(ctx context.Context, in *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	of, header, err := s.alone(ctx, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: in}})
	if err != nil {
		return nil, err
	}
	if of != nil {
		r := of.GetResponseDeleteRange()
		r.Header = header
		return r, s.openAll(ctx, r.PrevKvs)
	}
	r, err := s.KVClient.DeleteRange(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return r, s.openAll(ctx, r.PrevKvs)
}

func (s sealedKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if err := s.sealTxn(ctx, in); err != nil {
		return nil, err
	}
	r, err := s.txn(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return r, s.openTxn(ctx, r)
}

func (s sealedKV) sealTxn(ctx context.Context, in *pb.TxnRequest) error {
	for _, c := range in.Compare {
		if c.Target == pb.Compare_VALUE && s.sealer.Covers(below(c.Key)) {
			return fmt.Errorf("compare the value of %q: it is kept in another way each time", below(c.Key))
		}
	}
	for _, ops := range [][]*pb.RequestOp{in.Success, in.Failure} {
		for _, op := range ops {
			var err error
			switch op := op.Request.(type) {
			case *pb.RequestOp_RequestPut:
				err = s.sealPut(ctx, op.RequestPut)
			case *pb.RequestOp_RequestTxn:
				err = s.sealTxn(ctx, op.RequestTxn)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s sealedKV) sealPut(ctx context.Context, in *pb.PutRequest) (err error) {
	in.Value, err = s.sealer.Seal(ctx, below(in.Key), in.Value)
	return err
}

func (s sealedKV) openTxn(ctx context.Context, r *pb.TxnResponse) error {
	for _, one := range r.Responses {
		var err error
		switch one := one.Response.(type) {
		case *pb.ResponseOp_ResponseRange:
			err = s.openAll(ctx, one.ResponseRange.Kvs)
		case *pb.ResponseOp_ResponsePut:
			err = s.open(ctx, one.ResponsePut.PrevKv)
		case *pb.ResponseOp_ResponseDeleteRange:
			err = s.openAll(ctx, one.ResponseDeleteRange.PrevKvs)
		case *pb.ResponseOp_ResponseTxn:
			err = s.openTxn(ctx, one.ResponseTxn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s sealedKV) openAll(ctx context.Context, kvs []*mvccpb.KeyValue) error {
	for _, kv := range kvs {
		if err := s.open(ctx, kv); err != nil {
			return err
		}
	}
	return nil
}

func (s sealedKV) open(ctx context.Context, kv *mvccpb.KeyValue) (err error) {
	if kv == nil || len(kv.Value) == 0 { // it was not asked for
		return nil
	}
	if kv.Value, _, err = s.sealer.Open(ctx, below(kv.Key), kv.Value); err != nil {
		return fmt.Errorf("%w: %w", ErrSealed, err)
	}
	return nil
}

// below is a key of etcd without the log's prefix, seen as a string without a copy: it
// is not to be kept longer than the request or answer that it is of.
func below(k []byte) string {
	return strings.TrimPrefix(unsafe.String(unsafe.SliceData(k), len(k)), Prefix)
}

// update is what a value of etcd says to the table. What it comes with is not changed:
// etcd shares it between watches. Its key is a part of that, which the table copies.
func (l *Log) update(ctx context.Context, kv *mvccpb.KeyValue) (u table.Update, stale bool, err error) {
	u = table.Update{Key: below(kv.Key), CreateRev: kv.CreateRevision, ModRev: kv.ModRevision}
	if u.Value, stale, err = l.sealer.Open(ctx, u.Key, kv.Value); err != nil {
		return u, false, &sealedError{kv, err}
	}
	return u, stale, nil
}

// sealedError says that a value can't be read.
type sealedError struct {
	kv  *mvccpb.KeyValue
	why error
}

// Error says it to people.
func (e *sealedError) Error() string {
	return fmt.Sprintf("%v: revision %d: %v", ErrSealed, e.kv.ModRevision, e.why)
}

// Unwrap makes it an ErrSealed.
func (e *sealedError) Unwrap() []error { return []error{ErrSealed, e.why} }
