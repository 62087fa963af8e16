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

// Sealer encrypts and decrypts values. It must be safe for concurrent use.
type Sealer interface {
	// Covers reports whether the configuration of encryption covers a key. The stored values of
	// other keys are plain text.
	Covers(k string) bool
	// Seal returns the value of a key in stored form.
	Seal(ctx context.Context, k string, plain []byte) ([]byte, error)
	Opener
}

// Opener decrypts values.
type Opener interface {
	// Open returns the value of a key from its stored form. stale reports whether Seal would encrypt
	// it by another key or provider now.
	Open(ctx context.Context, k string, kept []byte) (plain []byte, stale bool, err error)
}

// ErrSealed is returned when a value of the log cannot be decrypted.
var ErrSealed = errors.New("a value of the log can't be read")

// plain stores values in plain text.
type plain struct{}

func (plain) Covers(string) bool { return false }

func (plain) Seal(_ context.Context, _ string, value []byte) ([]byte, error) { return value, nil }

func (plain) Open(_ context.Context, _ string, kept []byte) ([]byte, bool, error) {
	return kept, false, nil
}

// sealedKV encrypts values that are written to etcd and decrypts values that are read. All access to
// the log goes through it, except for the tail and the re-encryption, which need the stored form. It
// changes requests and responses in place, because the client makes new ones for each call.
type sealedKV struct {
	pb.KVClient
	sealer Sealer
}

// sealClient replaces the KV of a client by one that encrypts and then calls wire. It returns the
// previous KV, which reads and writes stored forms.
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
	response, header, err := s.guarded(ctx, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: in}})
	if err != nil {
		return nil, err
	}
	if response != nil {
		r := response.GetResponsePut()
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
	response, header, err := s.guarded(ctx, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: in}})
	if err != nil {
		return nil, err
	}
	if response != nil {
		r := response.GetResponseDeleteRange()
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
			return fmt.Errorf("compare the value of %q: each encryption of a value differs", below(c.Key))
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
	if kv == nil || len(kv.Value) == 0 { // the request excluded values
		return nil
	}
	if kv.Value, _, err = s.sealer.Open(ctx, below(kv.Key), kv.Value); err != nil {
		return fmt.Errorf("%w: %w", ErrSealed, err)
	}
	return nil
}

// below returns a key of etcd without the log's prefix. The string shares the memory of the request
// or response, so callers must not keep it longer than those.
func below(k []byte) string {
	return strings.TrimPrefix(unsafe.String(unsafe.SliceData(k), len(k)), Prefix)
}

// update returns the table's update for a key and value of etcd, and whether the value is stale. It
// does not change kv, which etcd shares between watches. The key of the update shares the memory of
// kv; the table copies it.
func (l *Log) update(ctx context.Context, kv *mvccpb.KeyValue) (u table.Update, stale bool, err error) {
	u = table.Update{Key: below(kv.Key), CreateRev: kv.CreateRevision, ModRev: kv.ModRevision}
	if u.Value, stale, err = l.sealer.Open(ctx, u.Key, kv.Value); err != nil {
		return u, false, &sealedError{kv, err}
	}
	return u, stale, nil
}

// sealedError is the error for a value that cannot be decrypted.
type sealedError struct {
	kv    *mvccpb.KeyValue
	cause error
}

// Error implements error.
func (e *sealedError) Error() string {
	return fmt.Sprintf("%v: revision %d: %v", ErrSealed, e.kv.ModRevision, e.cause)
}

// Unwrap returns ErrSealed and the cause.
func (e *sealedError) Unwrap() []error { return []error{ErrSealed, e.cause} }
