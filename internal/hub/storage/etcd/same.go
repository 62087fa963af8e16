package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"orrery.dev/orrery/internal/hub/storage/table"
)

var (
	// errRestored says that the log is not the one that the table was made from: an
	// older copy took its place.
	errRestored = errors.New("the log was restored")
	// errUnsure says that the log no longer shows whether it is the one that the table was
	// made from.
	errUnsure = errors.New("the log has forgotten whether it was restored")
	// errAnew says that a write goes by a table that was replaced meanwhile.
	errAnew = errors.New("the log was reloaded meanwhile")
)

// anchor is the newest change of the log that the table has. A log that has this change
// continues it; one that was restored from an older copy has something else at its
// revision, even if it has passed that meanwhile. Only the tail's goroutine uses it.
type anchor struct {
	key      string
	rev      int64
	value    []byte
	deletion bool
}

func (a *anchor) note(u table.Update, rev int64) {
	*a = anchor{key: u.Key, rev: rev, value: u.Value, deletion: u.Value == nil}
}

// loaded sets the anchor to the newest row of a state.
func (a *anchor) loaded(state []table.Update) {
	*a = anchor{}
	for _, u := range state {
		if u.ModRev > a.rev {
			a.note(u, u.ModRev)
		}
	}
}

func (a *anchor) is(kv *mvccpb.KeyValue) bool {
	return kv.ModRevision == a.rev && bytes.Equal(kv.Value, a.value)
}

// verify fails with errRestored unless the log still has the newest change that the
// table has of it.
func (l *Log) verify(ctx context.Context, a anchor) error {
	if a.rev == 0 {
		return nil
	}
	kv, err := l.getAt(ctx, a.key, a.rev)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return l.verifyNow(ctx, a)
	case err != nil:
		return err
	case !a.deletion && kv != nil && a.is(kv):
		return nil
	case !a.deletion || kv != nil:
		return fmt.Errorf("%w: another change was made at revision %d", errRestored, a.rev)
	}
	kv, err = l.getAt(ctx, a.key, a.rev-1)
	if err == nil && kv == nil {
		return fmt.Errorf("%w: another change was made at revision %d", errRestored, a.rev)
	}
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return err
}

// verifyNow is verify for a change whose revision was compacted.
func (l *Log) verifyNow(ctx context.Context, a anchor) error {
	kv, err := l.getAt(ctx, a.key, 0)
	switch {
	case err != nil:
		return err
	case kv != nil && !a.deletion && a.is(kv):
		return nil
	case kv != nil && kv.ModRevision <= a.rev:
		return fmt.Errorf("%w: what was changed at revision %d was not", errRestored, a.rev)
	}
	return errUnsure
}

// getAt reads a key as of a revision (0: now); nil if it is not there.
func (l *Log) getAt(ctx context.Context, k string, rev int64) (*mvccpb.KeyValue, error) {
	r, err := l.client.Client.Get(ctx, Prefix+k, clientv3.WithRev(rev))
	if errors.Is(err, rpctypes.ErrFutureRev) {
		return nil, fmt.Errorf("%w: it has not come to revision %d", errRestored, rev)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q at revision %d: %w", k, rev, err)
	}
	if len(r.Kvs) == 0 {
		return nil, nil
	}
	return r.Kvs[0], nil
}

// reach is the newest revision that the log was seen to have, which it can't fall behind,
// and whether it may be used. It is safe for concurrent use.
type reach struct {
	// check wakes the tail to check whether the log is still the same.
	check chan struct{}

	mu sync.Mutex
	// life counts how often the table was loaded.
	life int
	rev  int64
	// unlinked says that the connection was lost since the log was last checked; unloaded,
	// that the table is lost. links counts lost connections.
	unlinked, unloaded bool
	links              int
	// losses counts how often the table was lost.
	losses int
	// changed is closed and replaced when unlinked or unloaded ends.
	changed chan struct{}
}

func newReach() *reach {
	return &reach{check: make(chan struct{}, 1), changed: make(chan struct{})}
}

// before is what is known of the log before a request.
func (r *reach) before() (life int, rev int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life, r.rev
}

// after checks the revision of an answer against what was known before the request.
func (r *reach) after(life int, known, rev int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if life != r.life {
		return nil
	}
	if rev < known {
		r.ask()
		return fmt.Errorf("%w: it is at revision %d, and was at %d", errRestored, rev, known)
	}
	r.rev = max(r.rev, rev)
	return nil
}

// ask wakes the tail.
func (r *reach) ask() {
	select {
	case r.check <- struct{}{}:
	default:
	}
}

// renew forgets how far the log was: it may have been replaced.
func (r *reach) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.life, r.rev = r.life+1, 0
}

// unlink notes that the connection was lost.
func (r *reach) unlink() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlinked = true
	r.links++
}

// linked is how many connections were lost before a check of the log, for link, which says
// that the check found the same log.
func (r *reach) linked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.links
}

func (r *reach) link(links int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if links == r.links {
		r.unlinked = false
		r.wake()
	}
}

// unload notes that the table is lost; load, that it is loaded, unless it was lost since.
func (r *reach) unload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unloaded = true
	r.losses++
}

func (r *reach) load(losses int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if losses != r.losses {
		return
	}
	r.unloaded = false
	r.wake()
}

// lost is how often the table was lost.
func (r *reach) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.losses
}

func (r *reach) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait returns when the log is known to be the same, and, if loaded is true, the table to
// show it. It fails with errAnew if the table was reloaded meanwhile: what the caller is
// about to do goes by the one before.
func (r *reach) wait(ctx context.Context, loaded bool) error {
	first := -1
	for {
		r.mu.Lock()
		life, shut, changed := r.life, r.unlinked || loaded && r.unloaded, r.changed
		r.mu.Unlock()
		if first < 0 {
			first = life
		}
		switch {
		case loaded && first != life:
			return errAnew
		case !shut:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the log: %w", ctx.Err())
		}
	}
}

// watchConnection stops use of the log when the connection to an external etcd is lost,
// until the tail has checked it: a copy can't be restored below a running etcd, so the
// connection is lost first.
func (l *Log) watchConnection(ctx context.Context) {
	conn := l.client.ActiveConnection()
	if conn == nil {
		return
	}
	for state := conn.GetState(); conn.WaitForStateChange(ctx, state); {
		was := state
		if state = conn.GetState(); was == connectivity.Ready {
			l.reach.unlink()
		}
		switch state {
		case connectivity.Ready:
			l.reach.ask()
		case connectivity.Idle:
			conn.Connect()
		}
	}
}
