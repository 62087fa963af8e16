package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Lease is an etcd lease of a hub. When it is not renewed for its TTL, etcd deletes all keys that
// are attached to it, in one revision. A renewal makes no revision.
type Lease struct {
	log *Log
	id  clientv3.LeaseID
	ttl time.Duration
	// ctx ends when this process learns that the lease has ended.
	ctx  context.Context
	lose context.CancelFunc
}

// ErrLease is returned when a lease has expired or was revoked.
var ErrLease = errors.New("the hub's lease has ended")

// Grant creates a lease that expires when it is not renewed for ttl, rounded up to seconds. It
// returns ErrFull if etcd's quota is exhausted.
func (l *Log) Grant(ctx context.Context, ttl time.Duration) (*Lease, error) {
	r, err := l.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return nil, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return nil, fmt.Errorf("request a lease: %w", err)
	}
	x := &Lease{log: l, id: r.ID, ttl: time.Duration(r.TTL) * time.Second}
	x.ctx, x.lose = context.WithCancel(context.Background())
	return x, nil
}

// Keep renews the lease until the context ends, and returns ErrLease if the lease ends first: etcd
// did not answer for the TTL, it does not have the lease, or Revoke was called. Keep calls renewed
// after each renewal.
func (x *Lease) Keep(ctx context.Context, renewed func()) error {
	defer x.lose()
	responses, err := x.log.client.KeepAlive(ctx, x.id)
	if err != nil {
		return fmt.Errorf("keep the lease: %w", err)
	}
	for {
		select {
		case _, ok := <-responses:
			if !ok {
				return ErrLease
			}
			renewed()
		case <-x.ctx.Done(): // Revoke was called
			return ErrLease
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Ended returns a channel that is closed when this process learns that the lease has ended. In etcd
// the lease may end earlier or later.
func (x *Lease) Ended() <-chan struct{} { return x.ctx.Done() }

// Revoke ends the lease: etcd deletes all keys that are attached to it.
func (x *Lease) Revoke(ctx context.Context) error {
	x.lose()
	if _, err := x.log.client.Revoke(ctx, x.id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke the lease: %w", err)
	}
	return nil
}

// Embedded reports whether etcd runs in this process. No other hub can use such a log.
func (l *Log) Embedded() bool { return l.server != nil }
