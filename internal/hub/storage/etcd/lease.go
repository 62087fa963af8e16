package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
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
// its time, or has none of it, or Revoke was called. heard is called whenever the log has answered.
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
		case <-x.ctx.Done(): // Revoke was called
			return ErrLease
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
