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
	// resealEvery is the minimum interval between two re-encryptions.
	resealEvery = 10 * time.Millisecond
	// resealRetry is the pause after a failure.
	resealRetry = 10 * time.Second
	// resealLogged is the interval of messages about the progress.
	resealLogged = time.Minute
)

// staleness has what this hub knows of stale values: values that are not encrypted by the first key
// of the configuration. It is safe for concurrent use.
type staleness struct {
	// wake receives when the log must be searched for stale values.
	wake chan struct{}

	mu sync.Mutex
	// seen is true if the load of the table found a stale value.
	seen     bool
	resealed Resealed
}

// Resealed is the progress of the re-encryption of stale values.
type Resealed struct {
	// Running is true during a pass over the log. Pending is the number of known stale values.
	Running bool
	Pending int
	// Written counts re-encrypted values, and Failures the failed passes.
	Written, Failures int64
	// Floor is a revision at which no value was stale, after the last pass; 0 if there was no pass
	// since the log was loaded.
	Floor int64
}

func newStaleness() staleness { return staleness{wake: make(chan struct{}, 1)} }

// begin resets the state before a load: the log may have been replaced, with other revisions.
func (s *staleness) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.resealed.Floor = false, 0
}

// saw records that the load of the table found a stale value.
func (s *staleness) saw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = true
}

// loaded starts a pass over the log if the load of the table found a stale value. Stale values that
// other hubs write later do not start one: those hubs may not have the newest key yet, and two hubs
// must not re-encrypt a value back and forth.
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

// Resealed returns the progress of the re-encryption.
func (l *Log) Resealed() Resealed {
	l.stale.mu.Lock()
	defer l.stale.mu.Unlock()
	return l.stale.resealed
}

// ResealAll makes Reseal start a pass over the log, because the configuration of encryption has
// changed.
func (l *Log) ResealAll() { l.stale.raise() }

// Reseal re-encrypts stale values when a pass is requested, until the context ends. It limits its rate
// of writes, and skips values that another writer changes meanwhile.
func (l *Log) Reseal(ctx context.Context) error {
	for {
		select {
		case <-l.stale.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		l.stale.change(func(r *Resealed) { r.Running = true })
		for logged := false; ; logged = true {
			err := l.reseal(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l.stale.change(func(r *Resealed) { r.Failures++ })
			if !logged {
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

// reseal makes one pass over the log: it counts the stale values, and then re-encrypts them.
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
	limit := time.NewTicker(resealEvery)
	defer limit.Stop()
	written, logged := 0, time.Now()
	if err := l.eachKept(ctx, l.sealer.Covers, func(kv *mvccpb.KeyValue) error {
		u, stale, err := l.update(ctx, kv)
		if err != nil || !stale {
			return err
		}
		select {
		case <-limit.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.rewrite(ctx, kv, u.Value); err != nil {
			return err
		}
		written++
		l.stale.change(func(r *Resealed) { r.Written++; r.Pending = max(0, r.Pending-1) })
		if time.Since(logged) >= resealLogged {
			logged = time.Now()
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

// rewrite re-encrypts a value, unless it was written or deleted meanwhile.
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
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has expired, and etcd has deleted the key
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %q again: %w", below(kv.Key), err)
	}
	return nil
}

// CheckReadable returns an error unless opener decrypts all values of keys that covers or the log's
// sealer cover.
func (l *Log) CheckReadable(ctx context.Context, covers func(k string) bool, opener Opener) error {
	return l.eachKept(ctx, func(k string) bool { return l.sealer.Covers(k) || covers(k) }, func(kv *mvccpb.KeyValue) error {
		_, _, err := opener.Open(ctx, below(kv.Key), kv.Value)
		return err
	})
}

// eachKept calls f with the stored values of the covered keys of objects and reports. It reads keys
// without values first, page by page, and values only of covered keys.
func (l *Log) eachKept(ctx context.Context, covers func(k string) bool, f func(*mvccpb.KeyValue) error) error {
	read := func(k string) error {
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
					if err := read(string(kv.Key)); err != nil {
						return err
					}
				}
			}
			return nil
		}, clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("read the values of the log: %w", err)
		}
	}
	return nil
}
