package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// resealEvery is the pace at which values are written again that are kept by an older key.
	resealEvery = 10 * time.Millisecond
	// resealRetry is how long to wait after that failed.
	resealRetry = 10 * time.Second
	// resealSaid is how often it says how far it is.
	resealSaid = time.Minute
)

// staleness is what is known of values that would be kept in another way now. It is safe
// for concurrent use.
type staleness struct {
	// wake receives when the log is to be looked through.
	wake chan struct{}

	mu sync.Mutex
	// seen says that the load of the table came upon one.
	seen     bool
	resealed Resealed
}

// Resealed is how far the values of the log are kept as they are to be.
type Resealed struct {
	// Running says that the log is being looked through, and Pending how many values are
	// known to be written again.
	Running bool
	Pending int
	// Written counts those that were, and Failures the times that it could not go on.
	Written, Failures int64
	// Floor is a revision from which on all is kept as it is to be; 0: nothing was not.
	Floor int64
}

func newStaleness() staleness { return staleness{wake: make(chan struct{}, 1)} }

// begin forgets what was known of the log before a load: it may be another one, and its
// revisions others.
func (s *staleness) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.resealed.Floor = false, 0
}

// saw notes that the load of the table came upon a stale value.
func (s *staleness) saw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = true
}

// loaded has the log looked through if the load of the table came upon a stale value.
// What others write later is theirs to write again: they may not have the newest key yet,
// and two hubs must not go on changing the same value back and forth.
func (s *staleness) loaded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen {
		s.seen = false
		s.raise()
	}
}

func (s *staleness) raise() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *staleness) change(f func(*Resealed)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.resealed)
}

// Resealed is how far the values of the log are kept as they are to be.
func (l *Log) Resealed() Resealed {
	l.stale.mu.Lock()
	defer l.stale.mu.Unlock()
	return l.stale.resealed
}

// ResealAll has Reseal look through the log: values are to be kept in another way.
func (l *Log) ResealAll() { l.stale.raise() }

// Reseal writes what would be kept in another way now again, as it is and at a pace, until
// the context ends. What somebody else writes meanwhile is left to them.
func (l *Log) Reseal(ctx context.Context) error {
	for {
		select {
		case <-l.stale.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		l.stale.change(func(r *Resealed) { r.Running = true })
		for said := false; ; said = true {
			err := l.reseal(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l.stale.change(func(r *Resealed) { r.Failures++ })
			if !said {
				l.logger.Warn("values of the log can't be encrypted by the first key, trying again", "error", err)
			}
			select {
			case <-time.After(resealRetry):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		l.stale.change(func(r *Resealed) { r.Running, r.Pending = false, 0 })
	}
}

// reseal looks through the log once: first it counts, then it writes.
func (l *Log) reseal(ctx context.Context) error {
	pending := 0
	if err := l.eachKept(ctx, l.sealer.Covers, func(kv *mvccpb.KeyValue) error {
		_, stale, err := l.update(ctx, kv)
		if stale {
			pending++
		}
		return err
	}); err != nil {
		return err
	}
	l.stale.change(func(r *Resealed) { r.Pending = pending })
	if pending > 0 {
		l.logger.Info("encrypting values of the log again by the first key", "values", pending)
	}
	pace := time.NewTicker(resealEvery)
	defer pace.Stop()
	written, said := 0, time.Now()
	if err := l.eachKept(ctx, l.sealer.Covers, func(kv *mvccpb.KeyValue) error {
		u, stale, err := l.update(ctx, kv)
		if err != nil || !stale {
			return err
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.rewrite(ctx, kv, u.Value); err != nil {
			return err
		}
		written++
		l.stale.change(func(r *Resealed) { r.Written++; r.Pending = max(0, r.Pending-1) })
		if time.Since(said) >= resealSaid {
			said = time.Now()
			l.logger.Info("encrypting values of the log again by the first key", "written", written, "values", pending)
		}
		return nil
	}); err != nil {
		return err
	}
	rev, err := l.Committed(ctx)
	if err != nil {
		return err
	}
	l.stale.change(func(r *Resealed) { r.Floor = rev })
	l.logger.Info("all values of the log are encrypted by the first key; this hub does not need the others any more", "written", written, "revision", rev)
	return nil
}

// rewrite writes a value again, unless somebody else has written it meanwhile.
func (l *Log) rewrite(ctx context.Context, kv *mvccpb.KeyValue, value []byte) error {
	if err := l.reach.wait(ctx, true); err != nil {
		return err
	}
	done, err := l.Admit(ctx, Upkeep, len(kv.Key)+len(value))
	if err != nil {
		return err
	}
	defer done()
	k := string(kv.Key)
	_, err = l.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(k), "=", kv.ModRevision)).
		Then(clientv3.OpPut(k, string(value), clientv3.WithLease(clientv3.LeaseID(kv.Lease)))).
		Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has run out, and the key is gone
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %q again: %w", below(kv.Key), err)
	}
	return nil
}

// CheckReadable fails unless others than the log's sealer open all that they and the log's
// cover.
func (l *Log) CheckReadable(ctx context.Context, covers func(k string) bool, by Opener) error {
	return l.eachKept(ctx, func(k string) bool { return l.sealer.Covers(k) || covers(k) }, func(kv *mvccpb.KeyValue) error {
		_, _, err := by.Open(ctx, below(kv.Key), kv.Value)
		return err
	})
}

// eachKept shows the values of the keys of objects and reports that are covered, as they
// are kept. Keys come first and page by page, so that little is read for what is not.
func (l *Log) eachKept(ctx context.Context, covers func(k string) bool, f func(*mvccpb.KeyValue) error) error {
	show := func(k string) error {
		one, err := l.raw.Get(ctx, k)
		if err != nil {
			return fmt.Errorf("read %q: %w", below([]byte(k)), err)
		}
		if len(one.Kvs) == 0 {
			return nil
		}
		return f(one.Kvs[0])
	}
	for _, class := range []key.Class{key.Objects, key.Reports} {
		err := l.pages(ctx, Prefix+string(class)+"/", func(page []*mvccpb.KeyValue) error {
			for _, kv := range page {
				if covers(below(kv.Key)) {
					if err := show(string(kv.Key)); err != nil {
						return err
					}
				}
			}
			return nil
		}, clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("look at all that is kept: %w", err)
		}
	}
	return nil
}
