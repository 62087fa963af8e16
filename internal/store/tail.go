package store

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/table"
)

// Applier is what the log is tailed into; internal/table has one.
type Applier interface {
	Reset(rev int64, state []table.Update)
	Apply(rev int64, updates []table.Update) error
	Progress(rev int64)
	Rev() int64
}

const (
	loadPage = 1000
	// retryTail is how long a tail that lost its watch waits before it reloads.
	retryTail = time.Second
	// idleProgress is how often an idle tail asks how far the log is, which
	// matters when other users of the same etcd raise its revision.
	idleProgress = 5 * time.Second
)

// Tail keeps a table equal to the log until the context ends. The table is
// loaded as of the oldest revision that the log still has, and the rest replayed,
// so that readers can resume across a restart of the hub, and the last change
// of the log is known also if it was a deletion. loaded(true) is called when the
// table has reached the log's revision.
//
// When the watch is lost, or the log turns out to be behind the table because
// an older copy of it was restored, loaded(false) is called, the table is
// loaded anew and its subscriptions expire: nothing is skipped in silence.
func (l *Log) Tail(ctx context.Context, to Applier, loaded func(bool)) error {
	for {
		err := l.tailOnce(ctx, to, func() { loaded(true) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		loaded(false)
		l.logger.Error("lost the tail of the log, reloading", "revision", to.Rev(), "error", err)
		select {
		case <-time.After(retryTail):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Log) tailOnce(ctx context.Context, to Applier, loaded func()) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	now, err := l.Committed(ctx)
	if err != nil {
		return err
	}
	from, err := l.oldest(ctx, now)
	if err != nil {
		return err
	}
	state, err := l.load(ctx, from)
	if err != nil {
		return err
	}
	to.Reset(from, state)
	l.history.reset(from)
	if from == now {
		loaded()
		loaded = nil
	}
	watch := l.client.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(from+1))
	idle := time.NewTicker(idleProgress)
	defer idle.Stop()
	for {
		if loaded != nil && to.Rev() >= now {
			loaded()
			loaded = nil
		}
		select {
		case r, ok := <-watch:
			if !ok {
				return errors.New("watch ended")
			}
			if err := r.Err(); err != nil {
				return fmt.Errorf("watch the log from revision %d: %w", to.Rev()+1, err)
			}
			if err := l.applyEvents(to, r); err != nil {
				return err
			}
		case <-idle.C:
			if l.server != nil { // nobody else writes here
				continue
			}
			if err := l.progress(ctx, to); err != nil {
				return err
			}
		}
	}
}

// progress asks how far the log is, which must not be behind the table.
func (l *Log) progress(ctx context.Context, to Applier) error {
	seen := to.Rev()
	rev, err := l.Committed(ctx)
	if err != nil {
		return err
	}
	if rev < seen {
		return fmt.Errorf("the log is at revision %d, the table has seen %d: the log was restored", rev, seen)
	}
	if err := l.client.RequestProgress(ctx); err != nil {
		return fmt.Errorf("ask for the log's progress: %w", err)
	}
	return nil
}

// applyEvents hands over the events of a response one revision at a time; etcd
// never splits a revision over two responses of a watch that is not fragmented.
func (l *Log) applyEvents(to Applier, r clientv3.WatchResponse) error {
	if r.IsProgressNotify() {
		to.Progress(r.Header.Revision)
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
			updates[i] = update(e.Kv)
			if e.Type == mvccpb.DELETE {
				updates[i].Value = nil
			}
		}
		if err := to.Apply(rev, updates); err != nil {
			return err
		}
		l.history.add(rev, events[:n])
		events = events[n:]
	}
	return nil
}

func update(kv *mvccpb.KeyValue) table.Update {
	return table.Update{
		Key: string(kv.Key[len(Prefix):]), Value: kv.Value,
		CreateRev: kv.CreateRevision, ModRev: kv.ModRevision,
	}
}

// oldest is the oldest revision that the log can still be read at.
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
	start, end := Prefix, clientv3.GetPrefixRangeEnd(Prefix)
	for {
		r, err := l.client.Client.Get(ctx, start, clientv3.WithRange(end), clientv3.WithRev(rev), clientv3.WithLimit(loadPage))
		if err != nil {
			return nil, fmt.Errorf("load the log at revision %d: %w", rev, err)
		}
		for _, kv := range r.Kvs {
			state = append(state, update(kv))
		}
		if !r.More {
			return state, nil
		}
		start = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}
