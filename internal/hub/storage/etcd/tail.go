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

// Applier is what the log is tailed into; see table.Writer.
type Applier interface {
	Reset(rev int64, state []table.Update)
	Apply(rev int64, updates []table.Update) error
	Progress(rev int64)
	Rev() int64
}

const (
	// retryTail is how long a tail that lost its watch waits before it reloads.
	retryTail = time.Second
	// checkEvery is how often the tail of an external log checks whether it is still the
	// same, and asks for its revision, which other users of the same etcd may raise.
	checkEvery = 5 * time.Second
	// loadTimeout bounds how long a load may take, and checkTimeout a check.
	loadTimeout  = 10 * time.Minute
	checkTimeout = 10 * time.Second
)

// Tail keeps a table equal to the log until the context ends. The table is loaded at the
// oldest revision that the log still has, and the rest is replayed, so that readers can
// resume across a restart of the hub, and the last change of the log is known even if it
// was a deletion.
//
// When the watch is lost, or an older copy of the log was restored, the table is reloaded
// and its subscriptions expire: nothing is skipped in silence. From Hooks.Lost until the
// caller calls Begin or Resume nobody can use the log.
//
// If a value can't be decrypted before the table was ever loaded, it fails with ErrSealed.
// If that happens later, the table is lost until the value can be decrypted: no value is
// ever left out.
func (l *Log) Tail(ctx context.Context, to Applier, hooks Hooks) error {
	connected := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(connected)
		l.watchConnection(watching)
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

// Hooks are called by the goroutine of the tail.
type Hooks struct {
	// Lost is called when the table no longer follows the log. restored says that the log
	// is not the one that the table was made from. It may be called again before Loaded.
	Lost func(restored bool)
	// Loaded is called when the table has reached the log's revision.
	Loaded func()
	// Asked is called after each check of the log, with the error of its request if any, and now and
	// then says whether an embedded one answers.
	Asked func(error)
}

// tailer is the state of Tail.
type tailer struct {
	log   *Log
	to    Applier
	hooks Hooks
	// anchor is the newest change that the table has; down says that the table is lost.
	anchor anchor
	down   bool
	// checked is the log's revision when it was last verified.
	checked int64
	// recent says that the table is to be loaded as of the newest revision, since something
	// older could not be read, and ever that it was loaded once.
	recent, ever bool
	// sealed is the value that could not be read last; nil: none since.
	sealed *mvccpb.KeyValue
}

// lost stops use of the log until it is loaded again.
func (t *tailer) lost(ctx context.Context, err error) {
	t.log.reach.unload()
	// Once more after the hook, for callers that counted losses before they heard of it.
	defer t.log.reach.unload()
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

// once loads the table and follows the log until that fails.
func (t *tailer) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	if err := t.stuck(ctx); err != nil {
		return err
	}
	now, err := t.load(ctx)
	if err != nil {
		return t.note(err)
	}
	if err := t.replay(ctx, now); err != nil {
		return t.note(err)
	}
	watch := t.log.client.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(t.to.Rev()+1))
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	pulse := t.log.newPulse()
	for loading := true; ; {
		if loading && t.to.Rev() >= now {
			loading, t.down, t.recent, t.ever = false, false, false, true
			t.log.stale.loaded()
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
				return t.note(err)
			}
		case <-t.log.reach.check:
			links := t.log.reach.linked()
			if err := t.check(ctx, true); t.other(err) {
				return err
			} else if err != nil { // etcd does not answer; the watch resumes by itself
				time.AfterFunc(retryTail, t.log.reach.ask)
			} else {
				t.log.reach.link(links)
			}
		case err := <-pulse.answers:
			pulse.answered(err, t.hooks.Asked)
		case <-tick.C:
			if t.log.server != nil { // nobody else writes here, and it can't be replaced
				pulse.beat(ctx, time.Now(), t.hooks.Asked)
				continue
			}
			if err := t.check(ctx, false); t.other(err) {
				return err
			}
		}
	}
}

// note remembers the value that can't be read.
func (t *tailer) note(err error) error {
	if sealed, ok := errors.AsType[*sealedError](err); ok {
		t.sealed = sealed.kv
	}
	return err
}

// stuck says why the value that could not be read last can't be read still, if it is
// there: what comes before it would be read in vain.
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
		return fmt.Errorf("look at what can't be read: %w", err)
	}
	if len(r.Kvs) == 0 || r.Kvs[0].ModRevision != t.sealed.ModRevision {
		t.sealed = nil
		return nil
	}
	return failed
}

// other says that a check did not find the log that the table was made from.
func (t *tailer) other(err error) bool {
	return errors.Is(err, errRestored) || errors.Is(err, errUnsure)
}

// load loads the table at the oldest revision, and returns the newest. If a value of the
// history can't be decrypted because its key is gone, the table is loaded at the newest
// revision, so that readers can't resume from before.
func (t *tailer) load(ctx context.Context) (now int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	l := t.log
	l.reach.renew()
	l.stale.begin()
	links := l.reach.linked()
	if now, err = l.revision(ctx); err != nil {
		return 0, err
	}
	from := now
	if !t.recent {
		if from, err = l.oldest(ctx, now); err != nil {
			return 0, err
		}
	}
	state, err := l.load(ctx, from)
	if err != nil {
		return 0, err
	}
	// Verified after all was read, so that it is about the log that was read.
	if err := l.verify(ctx, t.anchor); err != nil && !errors.Is(err, errUnsure) {
		return 0, err
	}
	l.reach.link(links)
	t.to.Reset(from, state)
	l.history.reset(from)
	t.anchor.loaded(state)
	return now, nil
}

// check checks whether the log is the one that the table was made from, always or only if
// it was written to since the last time, and asks for its progress.
func (t *tailer) check(ctx context.Context, always bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	seen := t.to.Rev()
	rev, err := t.log.revision(ctx)
	t.hooks.Asked(err)
	if err != nil {
		return err
	}
	if rev < seen {
		return fmt.Errorf("%w: it is at revision %d, the table has seen %d", errRestored, rev, seen)
	}
	if always || rev != t.checked {
		if err := t.log.verify(ctx, t.anchor); err != nil {
			return err
		}
		t.checked = rev
	}
	if t.log.server != nil {
		return nil
	}
	if err := t.log.client.RequestProgress(ctx); err != nil {
		return fmt.Errorf("ask for the log's progress: %w", err)
	}
	return nil
}

// apply hands over the events of a response one revision at a time; etcd
// never splits a revision over two responses of a watch that is not fragmented.
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
				t.log.stale.saw()
			}
		}
		if err := t.to.Apply(rev, updates); err != nil {
			return err
		}
		t.anchor.note(updates[n-1], rev)
		t.log.history.add(rev, events[:n])
		events = events[n:]
	}
	return nil
}

// oldest is the oldest revision at which the log can still be read.
func (l *Log) oldest(ctx context.Context, now int64) (int64, error) {
	var failed error
	n := sort.Search(int(now-1), func(i int) bool {
		if failed != nil {
			return true
		}
		_, err := l.client.Client.Get(ctx, Prefix, clientv3.WithCountOnly(), clientv3.WithRev(int64(i)+1))
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

// load reads every key as of a revision.
func (l *Log) load(ctx context.Context, rev int64) ([]table.Update, error) {
	var state []table.Update
	err := l.pages(ctx, Prefix, func(page []*mvccpb.KeyValue) error {
		for _, kv := range page {
			u, stale, err := l.update(ctx, kv)
			if err != nil {
				return err
			}
			if stale {
				l.stale.saw()
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
