// Package election has one hub of those on a log do what only one may do at a time.
//
// What is to be done is divided into concerns. A hub is elected for a concern by writing its
// key, under its lease, when nobody else has it, and stays until the lease ends. All that it
// writes meanwhile depends on that key as it was written, so a hub that has been deposed
// without knowing it writes nothing. The package must never know what a concern is about.
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
	// retry is how long it takes until what failed is tried again.
	retry = time.Second
	// shownWithin is how long the table may take to show what was written.
	shownWithin = 10 * time.Second
)

// Member is this hub among those on the log.
type Member interface {
	// ID names it.
	ID() string
	// Lease is its lease, nil if it has none; full: since the log has no room. changed is
	// closed when that is no longer so.
	Lease() (lease *etcd.Lease, full bool, changed <-chan struct{})
	// Newer reports whether a hub with newer schemas lives. Such a hub is elected instead of this
	// one, which would drop what it does not know. changed is closed when that is no longer so.
	Newer() (lives bool, changed <-chan struct{})
}

// Elections elects this hub. It is safe for concurrent use.
type Elections struct {
	log    *etcd.Log
	table  *table.Table
	member Member
	logger *slog.Logger

	mu   sync.Mutex
	held map[string]struct{}
}

// New makes Elections.
func New(log *etcd.Log, table *table.Table, member Member, logger *slog.Logger) *Elections {
	return &Elections{log: log, table: table, member: member, logger: logger, held: map[string]struct{}{}}
}

// Held says whether this hub is elected for a concern, as far as it knows.
func (e *Elections) Held(concern string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, held := e.held[concern]
	return held
}

// Count is for how many concerns it is elected.
func (e *Elections) Count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.held)
}

func (e *Elections) note(concern string, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if held {
		e.held[concern] = struct{}{}
	} else {
		delete(e.held, concern)
	}
}

// Run runs a loop whenever this hub is elected for a concern, until the context ends. The
// loop's context ends when it is deposed; what is written by it is not written any more then.
// A loop that fails is run again.
func (e *Elections) Run(ctx context.Context, concern string, loop func(context.Context) error) error {
	for {
		term, end, err := e.elected(ctx, key.Election(concern))
		if err != nil {
			return err
		}
		e.note(concern, true)
		serving, stop := e.untilNewer(term)
		e.serve(ctx, serving, concern, loop)
		e.note(concern, false)
		if stop(); term.Err() == nil && ctx.Err() == nil {
			e.resign(term, key.Election(concern))
		}
		end()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// serve runs a loop for a term.
func (e *Elections) serve(ctx, term context.Context, concern string, loop func(context.Context) error) {
	for {
		err := loop(term)
		if ctx.Err() != nil {
			return
		}
		if term.Err() != nil {
			e.logger.Info("this hub is no longer elected", "concern", concern)
			return
		}
		e.logger.Error("a loop of the hub has ended, starting it again", "concern", concern, "error", err)
		select {
		case <-time.After(retry):
		case <-term.Done():
			return
		}
	}
}

// untilNewer is a term until a hub with newer schemas lives.
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

// resign removes the key by which this hub is elected, so that another need not wait for the end of
// its lease, which lasts as long as this hub lives. It tries again until the term ends.
func (e *Elections) resign(term context.Context, k string) {
	for !e.resigns(term, k) {
		select {
		case <-time.After(retry):
		case <-term.Done():
			return
		}
	}
}

// resigns tries once, and returns false if that has failed.
func (e *Elections) resigns(term context.Context, k string) bool {
	ctx, cancel := context.WithTimeout(term, shownWithin)
	defer cancel()
	if row, _ := e.table.Get(k); row == nil || string(row.Value) != e.member.ID() {
		return true // no hub is elected, since the log has no room
	}
	rev, err := e.log.Write(ctx, []etcd.Op{{Key: k}}) // under the guard of the term
	if err == nil {
		err = e.table.WaitFor(ctx, rev)
	}
	if err != nil && term.Err() == nil {
		e.logger.Warn("leave what this hub is elected for to a newer one", "key", k, "error", err)
	}
	return err == nil
}

// elected waits until this hub is elected for a key, for which it does not stand while a hub with
// newer schemas lives. The term ends when it no longer is.
// While nobody can be elected since the log has no room, every hub is, so that the deletions
// that make room go on.
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
			if row != nil && string(row.Value) == e.member.ID() { // from before the table was loaded anew, or the answer was lost
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

// write writes a key under a lease if nobody has it, and waits until the table shows that. The
// wait is bounded: the log may have been replaced by an older one meanwhile.
func (e *Elections) write(ctx context.Context, k string, lease *etcd.Lease) (rev int64, err error) {
	rev, err = e.log.Write(ctx, []etcd.Op{{Key: k, Value: []byte(e.member.ID()), Under: lease}}, etcd.Guard{Key: k})
	if err != nil {
		return 0, err
	}
	waiting, cancel := context.WithTimeout(ctx, shownWithin)
	defer cancel()
	return rev, e.table.WaitFor(waiting, rev)
}

// shown is the row of a key that the log has refused to make anew, as soon as the table shows
// it; nil: it did not for a while. Without that pause a table that lags would have the log
// asked as fast as it answers.
func (e *Elections) shown(ctx context.Context, k string, changed <-chan struct{}) *table.Row {
	waiting, cancel := context.WithTimeout(ctx, retry)
	defer cancel()
	e.await(waiting, k, func(row *table.Row) bool { return row != nil }, changed)
	row, _ := e.table.Get(k)
	return row
}

// unelected is a term for which nobody is elected, since etcd refuses every write though this
// hub has a lease. It ends when somebody is, which is tried throughout.
func (e *Elections) unelected(ctx context.Context, k string, lease *etcd.Lease, changed <-chan struct{}) (term context.Context, end context.CancelFunc, err error) {
	term, stop, err := e.term(ctx, etcd.Guard{Key: k}, changed)
	if err != nil {
		return nil, nil, err
	}
	trying, cancel := context.WithCancel(ctx) // its writes are not those of the term
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		for {
			select {
			case <-time.After(retry):
			case <-term.Done():
				return
			}
			_, _ = e.write(trying, k, lease) // the table shows what came of it
		}
	}()
	return term, func() { stop(); cancel(); <-tried }, nil
}

// term is the time for which a guard holds: until a channel is closed, or the table shows
// another one.
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

// await returns when the row of a key is as wanted, a channel is closed, or the context ends.
func (e *Elections) await(ctx context.Context, k string, wanted func(*table.Row) bool, over <-chan struct{}) {
	for {
		sub, err := e.table.Subscribe(e.table.Rev(), nil, table.At(k))
		if err == nil {
			done := e.follow(ctx, sub, k, wanted, over)
			sub.Close()
			if done {
				return
			}
		}
		if ctx.Err() != nil { // else the table was loaded anew
			return
		}
	}
}

// follow is await by a subscription; false: it has ended.
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
