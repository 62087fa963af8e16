// Package election elects, for each task that only one hub may do at a time, one of the hubs on a
// log.
//
// A hub is elected for a task by writing the task's key under its lease when no other hub has it,
// and stays leader until the lease ends. All its writes meanwhile require that key to be unchanged.
// A hub that is no longer leader, and does not know it, thus writes nothing. The package must not
// depend on the tasks.
package election

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// retry is the delay before a retry after a failure.
	retry = time.Second
	// shownWithin is the maximum time until the table contains a write.
	shownWithin = 10 * time.Second
)

// Member is this hub among the hubs on the log.
type Member interface {
	// ID returns the ID of the hub.
	ID() string
	// Lease returns the hub's lease, nil if it has none; full reports that the log has no space for
	// one. changed is closed when the result changes.
	Lease() (lease *etcd.Lease, full bool, changed <-chan struct{})
	// Newer reports whether a running hub has newer schemas. Such a hub is elected instead of this
	// one, which would drop fields that it does not know. changed is closed when the result
	// changes.
	Newer() (lives bool, changed <-chan struct{})
}

// Elections elects this hub for tasks. It is safe for concurrent use.
type Elections struct {
	log    *etcd.Log
	table  *table.Table
	member Member
	logger *slog.Logger

	mu   sync.Mutex
	held map[string]struct{}
}

// New returns Elections for a member.
func New(log *etcd.Log, table *table.Table, member Member, logger *slog.Logger) *Elections {
	return &Elections{log: log, table: table, member: member, logger: logger, held: map[string]struct{}{}}
}

// Held reports whether this hub is elected for a task, as far as it knows.
func (e *Elections) Held(task string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, held := e.held[task]
	return held
}

// Count returns the number of tasks that the hub is elected for.
func (e *Elections) Count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.held)
}

func (e *Elections) record(task string, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if held {
		e.held[task] = struct{}{}
	} else {
		delete(e.held, task)
	}
}

// Run runs loop whenever this hub is elected for a task, until the context ends. The loop's context
// ends when the hub is no longer leader; writes with that context then fail. If the loop fails, it
// is run again.
func (e *Elections) Run(ctx context.Context, task string, loop func(context.Context) error) error {
	for {
		term, end, err := e.elected(ctx, key.Election(task))
		if err != nil {
			return err
		}
		e.record(task, true)
		serving, stop := e.untilNewer(term)
		e.serve(ctx, serving, task, loop)
		e.record(task, false)
		if stop(); term.Err() == nil && ctx.Err() == nil {
			e.resign(term, key.Election(task))
		}
		end()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// serve runs loop for a term.
func (e *Elections) serve(ctx, term context.Context, task string, loop func(context.Context) error) {
	for {
		err := loop(term)
		if ctx.Err() != nil {
			return
		}
		if term.Err() != nil {
			e.logger.Info("this hub is no longer elected", "task", task)
			return
		}
		e.logger.Error("a loop of the hub has ended, starting it again", "task", task, "error", err)
		select {
		case <-time.After(retry):
		case <-term.Done():
			return
		}
	}
}

// untilNewer returns a term that also ends when a hub with newer schemas runs.
func (e *Elections) untilNewer(term context.Context) (serving context.Context, stop func()) {
	serving, cancel := context.WithCancel(term)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		for {
			lives, changed := e.member.Newer()
			if lives {
				return
			}
			select {
			case <-changed:
			case <-serving.Done():
				return
			}
		}
	}()
	return serving, func() { cancel(); <-watched }
}

// resign removes the key by which this hub is elected, so that another hub need not wait for the
// end of its lease, which lasts as long as the hub runs. It retries until the term ends.
func (e *Elections) resign(term context.Context, k string) {
	for !e.resigns(term, k) {
		select {
		case <-time.After(retry):
		case <-term.Done():
			return
		}
	}
}

// resigns tries once, and returns false after a failure.
func (e *Elections) resigns(term context.Context, k string) bool {
	ctx, cancel := context.WithTimeout(term, shownWithin)
	defer cancel()
	if row, _ := e.table.Get(k); row == nil || string(row.Value) != e.member.ID() {
		return true // no hub is elected, since the log is full
	}
	rev, err := e.log.Write(ctx, []etcd.Op{{Key: k}}) // under the guard of the term
	if err == nil {
		err = e.table.WaitFor(ctx, rev)
	}
	if err != nil && term.Err() == nil {
		e.logger.Warn("resign so that a newer hub is elected", "key", k, "error", err)
	}
	return err == nil
}

// elected waits until this hub is elected for a key. It is no candidate while a hub with newer
// schemas runs. The term ends when the hub is no longer elected. While the log is full and no hub
// can be elected, all hubs count as elected, so that the deletions that free space continue.
func (e *Elections) elected(ctx context.Context, k string) (term context.Context, end context.CancelFunc, err error) {
	for ctx.Err() == nil {
		if lives, left := e.member.Newer(); lives {
			select {
			case <-left:
			case <-ctx.Done():
			}
			continue
		}
		lease, full, changed := e.member.Lease()
		switch row, _ := e.table.Get(k); {
		case full && row == nil:
			return e.term(ctx, etcd.Guard{Key: k}, changed)
		case full:
			e.await(ctx, k, gone, changed)
			continue
		case lease == nil:
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		rev, err := e.write(ctx, k, lease)
		switch {
		case err == nil:
			return e.term(ctx, etcd.Guard{Key: k, CreateRev: rev}, lease.Ended())
		case errors.Is(err, etcd.ErrFull):
			return e.unelected(ctx, k, lease, changed)
		case errors.Is(err, etcd.ErrGuard):
			row := e.shown(ctx, k, changed)
			if row != nil && string(row.Value) == e.member.ID() { // the table was reloaded, or the response was lost
				return e.term(ctx, etcd.Guard{Key: k, CreateRev: row.CreateRev}, lease.Ended())
			}
			if row != nil {
				e.await(ctx, k, gone, changed)
			}
		default:
			select {
			case <-time.After(retry):
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
	return nil, nil, ctx.Err()
}

func gone(row *table.Row) bool { return row == nil }

// write writes a key under a lease if no hub has it, and waits until the table contains it. The
// wait is limited, since an older log may have replaced this one in the meantime.
func (e *Elections) write(ctx context.Context, k string, lease *etcd.Lease) (rev int64, err error) {
	rev, err = e.log.Write(ctx, []etcd.Op{{Key: k, Value: []byte(e.member.ID()), Under: lease}}, etcd.Guard{Key: k})
	if err != nil {
		return 0, err
	}
	waiting, cancel := context.WithTimeout(ctx, shownWithin)
	defer cancel()
	return rev, e.table.WaitFor(waiting, rev)
}

// shown returns the row of a key that the log refused to create, once the table contains it; nil
// after a timeout. Without that wait, a hub with an outdated table would send requests to the log
// without a pause.
func (e *Elections) shown(ctx context.Context, k string, changed <-chan struct{}) *table.Row {
	waiting, cancel := context.WithTimeout(ctx, retry)
	defer cancel()
	e.await(waiting, k, func(row *table.Row) bool { return row != nil }, changed)
	row, _ := e.table.Get(k)
	return row
}

// unelected returns a term without an elected hub, since etcd refuses all writes although this hub
// has a lease. It ends when a hub is elected, which is tried throughout the term.
func (e *Elections) unelected(ctx context.Context, k string, lease *etcd.Lease, changed <-chan struct{}) (term context.Context, end context.CancelFunc, err error) {
	term, stop, err := e.term(ctx, etcd.Guard{Key: k}, changed)
	if err != nil {
		return nil, nil, err
	}
	trying, cancel := context.WithCancel(ctx) // its writes do not belong to the term
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		for {
			select {
			case <-time.After(retry):
			case <-term.Done():
				return
			}
			_, _ = e.write(trying, k, lease) // the table shows the result
		}
	}()
	return term, func() { stop(); cancel(); <-tried }, nil
}

// term returns a context for which a guard holds: until a channel is closed, or the table contains
// another value.
func (e *Elections) term(ctx context.Context, g etcd.Guard, over <-chan struct{}) (term context.Context, end context.CancelFunc, err error) {
	term, cancel := context.WithCancel(etcd.Guarded(ctx, g))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		e.await(term, g.Key, func(row *table.Row) bool {
			return row == nil && g.CreateRev != 0 || row != nil && row.CreateRev != g.CreateRev
		}, over)
	}()
	return term, func() { cancel(); <-watched }, nil
}

// await returns when the row of a key has the wanted value, a channel is closed, or the context
// ends.
func (e *Elections) await(ctx context.Context, k string, wanted func(*table.Row) bool, over <-chan struct{}) {
	for {
		sub, err := e.table.Subscribe(e.table.Rev(), nil, table.KeyTopic(k))
		if err == nil {
			done := e.follow(ctx, sub, k, wanted, over)
			sub.Close()
			if done {
				return
			}
		}
		if ctx.Err() != nil { // otherwise the table was reloaded
			return
		}
	}
}

// follow is await on one subscription; it returns false if the subscription has ended.
func (e *Elections) follow(ctx context.Context, sub *table.Subscription, k string, wanted func(*table.Row) bool, over <-chan struct{}) bool {
	for {
		if row, _ := e.table.Get(k); wanted(row) {
			return true
		}
		select {
		case <-sub.Wake():
			if _, _, err := sub.Poll(); err != nil {
				return false
			}
		case <-over:
			return true
		case <-ctx.Done():
			return true
		}
	}
}
