package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// answersWithin is longer than an embedded etcd takes to answer a request or to time it out.
const answersWithin = 10 * time.Second

// standstill delays requests to an embedded etcd during a defragmentation. etcd would accept them,
// answer after seven seconds that they have timed out, and execute them later all the same.
type standstill struct {
	mu   sync.Mutex
	busy int // requests under way
	// over is closed at the end of the standstill, and nil if there is none. idle is closed when no
	// request is under way, and nil if no standstill waits for that.
	over, idle chan struct{}
}

// begin blocks new requests until end is called. It waits for requests under way, but no longer than
// answersWithin or until the context ends.
func (s *standstill) begin(ctx context.Context) (end func()) {
	over, idle := make(chan struct{}), make(chan struct{})
	s.mu.Lock()
	s.over, s.idle = over, idle
	if s.busy == 0 {
		close(idle)
		s.idle = nil
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	return func() {
		s.mu.Lock()
		s.over, s.idle = nil, nil
		s.mu.Unlock()
		close(over)
	}
}

// enter registers a request, after it has waited for the end of a standstill. The caller must call
// leave when the request has ended.
func (s *standstill) enter(ctx context.Context) error {
	for {
		s.mu.Lock()
		over := s.over
		if over == nil {
			s.busy++
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave unregisters a request.
func (s *standstill) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// steadyKV is the KV of an embedded etcd: it delays requests during a standstill, and records the
// revision of each response in acked.
type steadyKV struct {
	pb.KVClient
	still *standstill
	acked *acked
}

// response is a response of etcd.
type response interface{ GetHeader() *pb.ResponseHeader }

func steadily[In any, Out response](ctx context.Context, k steadyKV, in In, do func(context.Context, In, ...grpc.CallOption) (Out, error), opts []grpc.CallOption) (out Out, err error) {
	if err := k.still.enter(ctx); err != nil {
		return out, err
	}
	defer k.still.leave()
	out, err = do(ctx, in, opts...)
	if err == nil {
		k.acked.record(out.GetHeader().GetRevision())
	}
	return out, err
}

// Range implements pb.KVClient.
func (k steadyKV) Range(ctx context.Context, in *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return steadily(ctx, k, in, k.KVClient.Range, opts)
}

// Put implements pb.KVClient.
func (k steadyKV) Put(ctx context.Context, in *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	return steadily(ctx, k, in, k.KVClient.Put, opts)
}

// DeleteRange implements pb.KVClient.
func (k steadyKV) DeleteRange(ctx context.Context, in *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return steadily(ctx, k, in, k.KVClient.DeleteRange, opts)
}

// Txn implements pb.KVClient.
func (k steadyKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return steadily(ctx, k, in, k.KVClient.Txn, opts)
}
