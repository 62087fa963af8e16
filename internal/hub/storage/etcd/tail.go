package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// Applier receives the state and the changes of the log. table.Writer implements it.
type Applier interface {
	Reset(rev int64, state []table.Update)
	Apply(rev int64, updates []table.Update) error
	Progress(rev int64)
	Rev() int64
}

const (
	// retryTail is the pause before a tail that has lost its watch reloads the table.
	retryTail = time.Second
	// checkEvery is the interval at which the tail of an external log checks whether the log is still
	// the same, and requests its revision, which other users of the same etcd may increase. The tail
	// of an embedded log starts a health probe at this interval.
	checkEvery = 5 * time.Second
	// loadTimeout is the timeout of a load, and checkTimeout that of a check or a health probe.
	loadTimeout  = 10 * time.Minute
	checkTimeout = 10 * time.Second
)

// Tail keeps a table equal to the log until the context ends. It loads the table at the oldest
// revision of the log and replays all later changes. So readers can resume across a restart of the
// hub, and the last change of the log is known even if it was a deletion.
//
// When the watch is lost, or an older copy of the log was restored, Tail reloads the table and its
// subscriptions expire, so no reader misses a change silently. From Hooks.Lost until the caller calls
// Begin or Resume, writes and Committed block.
//
// If a value cannot be decrypted during the first load, Tail returns ErrSealed. Later, the table
// stays lost until the value can be decrypted: Tail never omits a value.
func (l *Log) Tail(ctx context.Context, to Applier, hooks Hooks) error {
	connected := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(connected)
		watchConnection(watching, l)
	}()
	defer func() { stop(); <-connected }()
	t := &tailer{log: l, to: to, hooks: hooks}
	for {
		err := t.once(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sealed := errors.Is(err, ErrSealed)
		if sealed && !t.ever {
			if t.recent {
				return err
			}
			l.logger.Warn("the log's history can't be read: readers can't resume from before", "error", err)
			t.recent = true
			continue
		}
		t.recent = sealed
		t.lost(ctx, err)
		select {
		case <-time.After(retryTail):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Hooks are callbacks that the goroutine of the tail calls.
type Hooks struct {
	// Lost is called when the table no longer follows the log. restored is true if the log is not
	// the one from which the table was loaded. Lost may be called again before Loaded.
	Lost func(restored bool)
	// Loaded is called when the table has reached the log's revision.
	Loaded func()
	// Probed is called with the result of each request that checks the log, and with the result of
	// each health probe of an embedded one.
	Probed func(error)
}

// tailer is the state of Tail.
type tailer struct {
	log   *Log
	to    Applier
	hooks Hooks
	// anchor is the newest change in the table; down is true while the table is lost.
	anchor anchor
	down   bool
	// checked is the revision of the log at its last verification.
	checked int64
	// recent is true if the next load must be at the newest revision, because an older value cannot
	// be decrypted. ever is true after the first load.
	recent, ever bool
	// sealed is the last value that could not be decrypted; nil if there is none.
	sealed *mvccpb.KeyValue
}

// lost blocks use of the log until the table is loaded again.
func (t *tailer) lost(ctx context.Context, err error) {
	t.log.continuity.unload()
	// Once more after the hook, for callers that called Losses before the hook.
	defer t.log.continuity.unload()
	restored := errors.Is(err, errRestored)
	if restored {
		t.anchor = anchor{}
	}
	if restored || !t.down {
		t.hooks.Lost(restored)
	}
	level := slog.LevelError
	if t.down { // already logged
		level = slog.LevelDebug
	}
	t.log.logger.Log(ctx, level, "lost the tail of the log, reloading", "revision", t.to.Rev(), "error", err)
	t.down = true
}

// once loads the table and follows the log until an error.
func (t *tailer) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	if err := t.stuck(ctx); err != nil {
		return err
	}
	now, err := t.load(ctx)
	if err != nil {
		return t.remember(err)
	}
	if err := t.replay(ctx, now); err != nil {
		return t.remember(err)
	}
	watch := t.log.client.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(t.to.Rev()+1))
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	probe := newHealthProbe(t.log)
	for loading := true; ; {
		if loading && t.to.Rev() >= now {
			loading, t.down, t.recent, t.ever = false, false, false, true
			t.log.reencryption.loaded()
			t.hooks.Loaded()
		}
		select {
		case r, ok := <-watch:
			if !ok {
				return errors.New("watch ended")
			}
			if err := r.Err(); err != nil {
				return fmt.Errorf("watch the log from revision %d: %w", t.to.Rev()+1, err)
			}
			if err := t.apply(ctx, r, loading); err != nil {
				return t.remember(err)
			}
		case <-t.log.continuity.check:
			links := t.log.continuity.linked()
			if err := t.check(ctx, true); t.isOther(err) {
				return err
			} else if err != nil { // etcd does not answer; the watch resumes by itself
				time.AfterFunc(retryTail, t.log.continuity.requestCheck)
			} else {
				t.log.continuity.link(links)
			}
		case err := <-probe.results:
			probe.finish(err, t.hooks.Probed)
		case <-tick.C:
			if t.log.server != nil { // no other program writes to it or replaces it
				probe.start(ctx, time.Now(), t.hooks.Probed)
				continue
			}
			if err := t.check(ctx, false); t.isOther(err) {
				return err
			}
		}
	}
}

// remember records the value of a sealedError, and returns the error.
func (t *tailer) remember(err error) error {
	if sealed, ok := errors.AsType[*sealedError](err); ok {
		t.sealed = sealed.kv
	}
	return err
}

// stuck returns an error if the value in t.sealed is still in the log and still cannot be decrypted.
// Without this check, each attempt would read all values before it in vain.
func (t *tailer) stuck(ctx context.Context) error {
	if t.sealed == nil || !t.ever {
		return nil
	}
	_, _, failed := t.log.update(ctx, t.sealed)
	if failed == nil {
		t.sealed = nil
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := t.log.raw.Get(ctx, string(t.sealed.Key))
	if err != nil {
		return fmt.Errorf("read the value that can't be decrypted: %w", err)
	}
	if len(r.Kvs) == 0 || r.Kvs[0].ModRevision != t.sealed.ModRevision {
		t.sealed = nil
		return nil
	}
	return failed
}

// isOther reports whether the error of a check means that the log may not be the one from which the
// table was loaded.
func (t *tailer) isOther(err error) bool {
	return errors.Is(err, errRestored) || errors.Is(err, errUnsure)
}

// load loads the table at the oldest revision, and returns the newest. If t.recent is set, it loads
// the table at the newest revision, and readers cannot resume from older ones.
func (t *tailer) load(ctx context.Context) (now int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	l := t.log
	l.continuity.renew()
	l.reencryption.begin()
	links := l.continuity.linked()
	if now, err = l.revision(ctx); err != nil {
		return 0, err
	}
	from := now
	if !t.recent {
		if from, err = t.oldest(ctx, now); err != nil {
			return 0, err
		}
	}
	state, err := t.loadAt(ctx, from)
	if err != nil {
		return 0, err
	}
	// This verifies the log that was read, because the read is complete.
	if err := t.verify(ctx, t.anchor); err != nil && !errors.Is(err, errUnsure) {
		return 0, err
	}
	l.continuity.link(links)
	t.to.Reset(from, state)
	l.capacity.history.reset(from)
	t.anchor.loaded(state)
	return now, nil
}

// check checks whether the log is the one from which the table was loaded, and requests a progress
// notification. It verifies the anchor if always is true or the revision has changed since the last
// check.
func (t *tailer) check(ctx context.Context, always bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	seen := t.to.Rev()
	rev, err := t.log.revision(ctx)
	t.hooks.Probed(err)
	if err != nil {
		return err
	}
	if rev < seen {
		return fmt.Errorf("%w: it is at revision %d, the table has seen %d", errRestored, rev, seen)
	}
	if always || rev != t.checked {
		if err := t.verify(ctx, t.anchor); err != nil {
			return err
		}
		t.checked = rev
	}
	if t.log.server != nil {
		return nil
	}
	if err := t.log.client.RequestProgress(ctx); err != nil {
		return fmt.Errorf("request the log's progress: %w", err)
	}
	return nil
}

// apply applies the events of a response one revision at a time. etcd never splits a revision over
// two responses of a watch without fragments.
func (t *tailer) apply(ctx context.Context, r clientv3.WatchResponse, loading bool) error {
	if r.IsProgressNotify() {
		t.to.Progress(r.Header.Revision)
		return nil
	}
	events := r.Events
	for len(events) > 0 {
		rev, n := events[0].Kv.ModRevision, 1
		for n < len(events) && events[n].Kv.ModRevision == rev {
			n++
		}
		updates := make([]table.Update, n)
		for i, e := range events[:n] {
			if e.Type == mvccpb.DELETE {
				updates[i] = table.Update{Key: string(e.Kv.Key[len(Prefix):]), ModRev: e.Kv.ModRevision}
				continue
			}
			var err error
			var stale bool
			if updates[i], stale, err = t.log.update(ctx, e.Kv); err != nil {
				return err
			}
			if stale && loading {
				t.log.reencryption.saw()
			}
		}
		if err := t.to.Apply(rev, updates); err != nil {
			return err
		}
		t.anchor.set(updates[n-1], rev)
		t.log.capacity.history.add(rev, events[:n])
		events = events[n:]
	}
	return nil
}

// oldest returns the oldest revision at which the log can be read, by a binary search.
func (t *tailer) oldest(ctx context.Context, now int64) (int64, error) {
	var failed error
	n := sort.Search(int(now-1), func(i int) bool {
		if failed != nil {
			return true
		}
		_, err := t.log.client.Client.Get(ctx, Prefix, clientv3.WithCountOnly(), clientv3.WithRev(int64(i)+1))
		if errors.Is(err, rpctypes.ErrCompacted) {
			return false
		}
		failed = err
		return true
	})
	if failed != nil {
		return 0, fmt.Errorf("look for the log's oldest revision: %w", failed)
	}
	return int64(n) + 1, nil
}

// loadAt reads every key at a revision.
func (t *tailer) loadAt(ctx context.Context, rev int64) ([]table.Update, error) {
	var state []table.Update
	err := t.log.pages(ctx, Prefix, func(page []*mvccpb.KeyValue) error {
		for _, kv := range page {
			u, stale, err := t.log.update(ctx, kv)
			if err != nil {
				return err
			}
			if stale {
				t.log.reencryption.saw()
			}
			state = append(state, u)
		}
		return nil
	}, clientv3.WithRev(rev))
	if err != nil {
		return nil, fmt.Errorf("load the log at revision %d: %w", rev, err)
	}
	return state, nil
}
