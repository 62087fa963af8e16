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
	// errRestored is returned when the log is not the one from which the table was loaded: it was
	// restored from an older copy.
	errRestored = errors.New("the log was restored")
	// errUnsure is returned when the history by which the log could be recognized was compacted.
	errUnsure = errors.New("the log has forgotten whether it was restored")
	// errAnew is returned when the table was reloaded while a write waited: the write is based on
	// rows that are gone.
	errAnew = errors.New("the log was reloaded meanwhile")
)

// anchor is the newest change in the table. A log with this change at this revision continues the
// table. A log that was restored from an older copy has another change at this revision, or none,
// even if it has a higher revision by now. Only the tail's goroutine uses it.
type anchor struct {
	key      string
	rev      int64
	value    []byte
	deletion bool
}

func (a *anchor) set(u table.Update, rev int64) {
	*a = anchor{key: u.Key, rev: rev, value: u.Value, deletion: u.Value == nil}
}

// loaded sets the anchor to the newest key of a loaded state.
func (a *anchor) loaded(state []table.Update) {
	*a = anchor{}
	for _, u := range state {
		if u.ModRev > a.rev {
			a.set(u, u.ModRev)
		}
	}
}

func (a *anchor) is(kv *mvccpb.KeyValue) bool {
	return kv.ModRevision == a.rev && bytes.Equal(kv.Value, a.value)
}

// verify returns errRestored if the log does not have the change of the anchor, and errUnsure if
// compactions hide whether it has.
func (t *tailer) verify(ctx context.Context, a anchor) error {
	if a.rev == 0 {
		return nil
	}
	kv, err := t.getAt(ctx, a.key, a.rev)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return t.verifyNow(ctx, a)
	case err != nil:
		return err
	case !a.deletion && kv != nil && a.is(kv):
		return nil
	case !a.deletion || kv != nil:
		return fmt.Errorf("%w: another change was made at revision %d", errRestored, a.rev)
	}
	kv, err = t.getAt(ctx, a.key, a.rev-1)
	if err == nil && kv == nil {
		return fmt.Errorf("%w: another change was made at revision %d", errRestored, a.rev)
	}
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return err
}

// verifyNow is verify for a change whose revision was compacted.
func (t *tailer) verifyNow(ctx context.Context, a anchor) error {
	kv, err := t.getAt(ctx, a.key, 0)
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

// getAt returns a key and its value at a revision (0: the newest), or nil if it does not exist. It
// returns errRestored if the log has not reached the revision.
func (t *tailer) getAt(ctx context.Context, k string, rev int64) (*mvccpb.KeyValue, error) {
	r, err := t.log.client.Client.Get(ctx, Prefix+k, clientv3.WithRev(rev))
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

// Continuity records the newest known revision of the log, which it cannot fall behind unless it was
// restored, and whether the log may be used. It is safe for concurrent use.
type Continuity struct {
	// check receives when the tail must check whether the log is still the same.
	check chan struct{}

	mu sync.Mutex
	// generation counts the loads of the table.
	generation int
	rev        int64
	// unlinked is true if the connection was lost after the last check of the log, and unloaded if
	// the table is lost. links counts lost connections.
	unlinked, unloaded bool
	links              int
	// losses counts the losses of the table.
	losses int
	// changed is closed and replaced when unlinked or unloaded becomes false.
	changed chan struct{}
}

func newContinuity() *Continuity {
	return &Continuity{check: make(chan struct{}, 1), changed: make(chan struct{})}
}

// snapshot returns the number of loads and the highest known revision. A caller takes it before a
// request, and passes it to verify with the revision of the response.
func (c *Continuity) snapshot() (generation int, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation, c.rev
}

// verify checks the revision of a response. It returns errRestored, and wakes the tail, if the revision
// is below the one that was known before the request. It ignores responses from before a reload.
func (c *Continuity) verify(generation int, known, rev int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation != c.generation {
		return nil
	}
	if rev < known {
		c.requestCheck()
		return fmt.Errorf("%w: it is at revision %d, and was at %d", errRestored, rev, known)
	}
	c.rev = max(c.rev, rev)
	return nil
}

// requestCheck wakes the tail, so that it checks the log.
func (c *Continuity) requestCheck() {
	select {
	case c.check <- struct{}{}:
	default:
	}
}

// renew drops the known revision before a load: the log may have been replaced.
func (c *Continuity) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation, c.rev = c.generation+1, 0
}

// unlink records that the connection was lost.
func (c *Continuity) unlink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlinked = true
	c.links++
}

// linked returns the number of lost connections, to be passed to link after a check of the log.
func (c *Continuity) linked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links
}

// link records that a check found the same log. It has no effect if the connection was lost since
// links was read.
func (c *Continuity) link(links int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if links == c.links {
		c.unlinked = false
		c.wake()
	}
}

// unload records that the table is lost.
func (c *Continuity) unload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unloaded = true
	c.losses++
}

// Resume allows use of the log again after the table was lost and loaded. It has no effect if the
// table was lost again since losses was read.
func (c *Continuity) Resume(losses int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if losses != c.losses {
		return
	}
	c.unloaded = false
	c.wake()
}

// Known returns the newest known revision of the log.
func (c *Continuity) Known() int64 {
	_, rev := c.snapshot()
	return rev
}

// Lost reports whether the table is lost, so that writes and Committed block.
func (c *Continuity) Lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unloaded
}

// Losses returns how often the table was lost, for Resume. Call it before you check that the table is
// loaded, so that Resume has no effect if that table was lost meanwhile.
func (c *Continuity) Losses() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.losses
}

func (c *Continuity) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait blocks while the connection is unchecked, and, if loaded is true, also while the table is lost.
// With loaded it returns errAnew if the table was reloaded meanwhile: the caller's write is based on
// rows that are gone.
func (c *Continuity) wait(ctx context.Context, loaded bool) error {
	first := -1
	for {
		c.mu.Lock()
		generation, shut, changed := c.generation, c.unlinked || loaded && c.unloaded, c.changed
		c.mu.Unlock()
		if first < 0 {
			first = generation
		}
		switch {
		case loaded && first != generation:
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

// watchConnection blocks use of the log when the connection to an external etcd is lost, until the
// tail has checked the log. A restore requires that etcd stops, so the connection is lost first.
func watchConnection(ctx context.Context, l *Log) {
	conn := l.client.ActiveConnection()
	if conn == nil {
		return
	}
	for state := conn.GetState(); conn.WaitForStateChange(ctx, state); {
		previous := state
		if state = conn.GetState(); previous == connectivity.Ready {
			l.continuity.unlink()
		}
		switch state {
		case connectivity.Ready:
			l.continuity.requestCheck()
		case connectivity.Idle:
			conn.Connect()
		}
	}
}
