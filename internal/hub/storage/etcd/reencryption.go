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
	// reencryptEvery is the minimum interval between two re-encryptions.
	reencryptEvery = 10 * time.Millisecond
	// reencryptRetry is the pause after a failure.
	reencryptRetry = 10 * time.Second
	// reencryptLogged is the interval of messages about the progress.
	reencryptLogged = time.Minute
)

// Reencryption re-encrypts the stale values of a log: values that are not encrypted by the first key of the
// configuration. It is safe for concurrent use.
type Reencryption struct {
	log *Log
	// wake receives when the log must be searched for stale values.
	wake chan struct{}

	mu sync.Mutex
	// seen is true if the load of the table found a stale value.
	seen     bool
	progress ReencryptionProgress
}

// ReencryptionProgress is the progress of the re-encryption of stale values.
type ReencryptionProgress struct {
	// Running is true during a pass over the log. Pending is the number of known stale values.
	Running bool
	Pending int
	// Written counts re-encrypted values, and Failures the failed passes.
	Written, Failures int64
	// Floor is a revision at which no value was stale, after the last pass; 0 if there was no pass
	// since the log was loaded.
	Floor int64
}

func newReencryption(l *Log) *Reencryption {
	return &Reencryption{log: l, wake: make(chan struct{}, 1)}
}

// begin resets the state before a load: the log may have been replaced, with other revisions.
func (r *Reencryption) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen, r.progress.Floor = false, 0
}

// saw records that the load of the table found a stale value.
func (r *Reencryption) saw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = true
}

// loaded starts a pass over the log if the load of the table found a stale value. Stale values that
// other hubs write later do not start one: those hubs may not have the newest key yet, and two hubs
// must not re-encrypt a value back and forth.
func (r *Reencryption) loaded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen {
		r.seen = false
		r.raise()
	}
}

func (r *Reencryption) raise() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Reencryption) change(f func(*ReencryptionProgress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.progress)
}

// Progress returns the progress of the re-encryption.
func (r *Reencryption) Progress() ReencryptionProgress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// Request makes Run start a pass over the log, because the configuration of encryption has changed.
func (r *Reencryption) Request() { r.raise() }

// Run re-encrypts stale values when a pass is requested, until the context ends. It limits its rate
// of writes, and skips values that another writer changes meanwhile.
func (r *Reencryption) Run(ctx context.Context) error {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		r.change(func(p *ReencryptionProgress) { p.Running = true })
		for logged := false; ; logged = true {
			err := r.pass(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.change(func(p *ReencryptionProgress) { p.Failures++ })
			if !logged {
				r.log.logger.Warn("values of the log can't be encrypted by the first key, trying again", "error", err)
			}
			select {
			case <-time.After(reencryptRetry):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r.change(func(p *ReencryptionProgress) { p.Running, p.Pending = false, 0 })
	}
}

// pass makes one pass over the log: it counts the stale values, and then re-encrypts them.
func (r *Reencryption) pass(ctx context.Context) error {
	pending := 0
	if err := r.eachKept(ctx, r.log.sealer.Covers, func(kv *mvccpb.KeyValue) error {
		_, stale, err := r.log.update(ctx, kv)
		if stale {
			pending++
		}
		return err
	}); err != nil {
		return err
	}
	r.change(func(p *ReencryptionProgress) { p.Pending = pending })
	if pending > 0 {
		r.log.logger.Info("encrypting values of the log again by the first key", "values", pending)
	}
	limit := time.NewTicker(reencryptEvery)
	defer limit.Stop()
	written, logged := 0, time.Now()
	if err := r.eachKept(ctx, r.log.sealer.Covers, func(kv *mvccpb.KeyValue) error {
		u, stale, err := r.log.update(ctx, kv)
		if err != nil || !stale {
			return err
		}
		select {
		case <-limit.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := r.rewrite(ctx, kv, u.Value); err != nil {
			return err
		}
		written++
		r.change(func(p *ReencryptionProgress) { p.Written++; p.Pending = max(0, p.Pending-1) })
		if time.Since(logged) >= reencryptLogged {
			logged = time.Now()
			r.log.logger.Info("encrypting values of the log again by the first key", "written", written, "values", pending)
		}
		return nil
	}); err != nil {
		return err
	}
	rev, err := r.log.Committed(ctx)
	if err != nil {
		return err
	}
	r.change(func(p *ReencryptionProgress) { p.Floor = rev })
	r.log.logger.Info("all values of the log are encrypted by the first key; the hub checks that again before it gives up another one", "written", written, "revision", rev)
	return nil
}

// rewrite re-encrypts a value, unless it was written or deleted meanwhile.
func (r *Reencryption) rewrite(ctx context.Context, kv *mvccpb.KeyValue, value []byte) error {
	if err := r.log.continuity.wait(ctx, true); err != nil {
		return err
	}
	done, err := r.log.Capacity().Admit(ctx, Upkeep, len(kv.Key)+len(value))
	if err != nil {
		return err
	}
	defer done()
	k := string(kv.Key)
	_, err = r.log.client.Txn(ctx).
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
func (r *Reencryption) CheckReadable(ctx context.Context, covers func(k string) bool, opener Opener) error {
	return r.eachKept(ctx, func(k string) bool { return r.log.sealer.Covers(k) || covers(k) }, func(kv *mvccpb.KeyValue) error {
		_, _, err := opener.Open(ctx, below(kv.Key), kv.Value)
		return err
	})
}

// eachKept calls f with the stored values of the covered keys of objects and reports. It reads keys
// without values first, page by page, and values only of covered keys.
func (r *Reencryption) eachKept(ctx context.Context, covers func(k string) bool, f func(*mvccpb.KeyValue) error) error {
	read := func(k string) error {
		one, err := r.log.raw.Get(ctx, k)
		if err != nil {
			return fmt.Errorf("read %q: %w", below([]byte(k)), err)
		}
		if len(one.Kvs) == 0 {
			return nil
		}
		return f(one.Kvs[0])
	}
	for _, class := range []key.Class{key.Objects, key.Reports} {
		err := r.log.pages(ctx, Prefix+string(class)+"/", func(page []*mvccpb.KeyValue) error {
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
