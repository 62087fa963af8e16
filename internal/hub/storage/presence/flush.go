package presence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// A group of changes that are written together has up to groupChanges and groupBytes, or one change.
// It is one transaction, so all or none of it is written.
const (
	groupChanges = 64
	groupBytes   = 512 << 10
)

// Run writes until the context ends. Under a new lease it writes all sessions again.
func (w *Writer) Run(ctx context.Context) error {
	var under *etcd.Lease
	for {
		lease, _, changed := w.member.Lease()
		if lease != nil && lease != under {
			w.anew()
		}
		if lease != nil {
			under = lease
		}
		pause := time.Duration(0)
		if err := w.flush(ctx, lease); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if pause = retryWrite; !errors.Is(err, etcd.ErrLease) {
				w.logger.Debug("write sessions and statuses of agents", "error", err)
			}
		}
		var later <-chan time.Time
		if pause > 0 {
			later = time.After(pause)
		}
		select {
		case <-w.wake:
		case <-changed:
		case <-later:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(batchDelay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// anew marks all sessions to be written again that no other hub has now.
func (w *Writer) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for agent := range w.mine {
		if _, dirty := w.dirty[agent]; !dirty {
			w.dirty[agent] = released
		}
	}
}

// taken is the set of pending writes.
type taken struct {
	sessions map[key.Session]noted
	patches  map[key.Session]Patch
}

// noted is a session to write, nil if it has ended, and the reason.
type noted struct {
	is  *Session
	why dirt
}

// flush writes the pending changes; it writes sessions only under a lease.
func (w *Writer) flush(ctx context.Context, lease *etcd.Lease) error {
	for {
		t := w.take(lease != nil)
		if len(t.sessions)+len(t.patches) == 0 {
			return nil
		}
		rev, left, err := w.write(ctx, w.changes(w.table.Snapshot(), t, lease), lease)
		w.back(t, left, err)
		if rev > 0 {
			shown, cancel := context.WithTimeout(ctx, awaitWritten)
			err = errors.Join(err, w.table.WaitFor(shown, rev))
			cancel()
		}
		if err != nil {
			return err
		}
	}
}

// take returns the pending changes.
func (w *Writer) take(leased bool) taken {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := taken{sessions: map[key.Session]noted{}, patches: w.patches}
	w.patches = map[key.Session]Patch{}
	if !leased {
		return t
	}
	for agent, why := range w.dirty {
		n := noted{why: why}
		if is, open := w.mine[agent]; open {
			n.is = &is
		}
		t.sessions[agent] = n
	}
	clear(w.dirty)
	return t
}

// back makes the changes to the remaining keys pending again, because other hubs wrote them or the
// write failed. Later changes take precedence. Callers that wait for a status get the result.
func (w *Writer) back(t taken, left []string, failed error) {
	is := make(map[string]struct{}, len(left))
	for _, k := range left {
		is[k] = struct{}{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for agent, n := range t.sessions {
		if _, ok := is[agent.Key()]; ok {
			w.dirty[agent] = w.dirty[agent] || n.why
		}
	}
	for agent, old := range t.patches {
		if _, ok := is[agent.StatusKey()]; !ok {
			old.waiter.answer(nil)
			continue
		}
		if old.waiter != nil && (old.waiter.withdrawn || failed != nil) {
			old.waiter.answer(failed)
			old = old.withoutStatus()
		}
		w.patches[agent] = w.patches[agent].over(old)
	}
}

// over merges two patches, of which old is the older.
func (p Patch) over(old Patch) Patch {
	if p.Status == nil {
		p.Status, p.Text, p.SignedBy, p.waiter = old.Status, old.Text, old.SignedBy, old.waiter
	} else {
		old.waiter.answer(nil)
	}
	if p.Refused == nil {
		p.Refused = old.Refused
	}
	if p.Strange == nil {
		p.Strange = old.Strange
	}
	if p.Exceeds == nil {
		p.Exceeds = old.Exceeds
	}
	if p.LastSeen == nil {
		p.LastSeen = old.LastSeen
	}
	return p
}

// change is one write, with its agent and its purpose.
type change struct {
	etcd.Change
	agent key.Session
	need  etcd.Need
}

// changes returns the pending changes as writes to a state of the log, the most urgent first.
// Changes without effect are omitted.
func (w *Writer) changes(state table.Reader, t taken, lease *etcd.Lease) []change {
	var all []change
	for agent, n := range t.sessions {
		if c, ok := w.session(state, agent, n, lease); ok {
			all = append(all, change{c, agent, needOf(state, c)})
		}
	}
	for agent, p := range t.patches {
		if c, ok := w.patched(state, agent, p); ok {
			all = append(all, change{c, agent, needOf(state, c)})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return int(b.need - a.need) })
	return all
}

// write writes changes, and returns the revision of the last one and the keys that remain to be
// written, because other hubs wrote them or the write failed. A change that the log never accepts
// is dropped, without effect on others.
func (w *Writer) write(ctx context.Context, all []change, lease *etcd.Lease) (rev int64, left []string, err error) {
	for len(all) > 0 {
		n := groupSize(all)
		written, stale, failed := w.admitted(ctx, all[:n])
		switch {
		case failed == nil:
			w.wrote(all[:n], stale, lease)
		case neverTaken(failed) && n > 1:
			written, stale, failed = w.alone(ctx, all[:n], lease)
		case neverTaken(failed):
			w.logger.Warn("the log refuses the status of an agent: it is not stored", "location", all[0].agent.Location, "error", failed)
			failed = nil
		default:
			stale = keys(all[:n])
		}
		rev, left = max(rev, written), append(left, stale...)
		if failed != nil {
			return rev, append(left, keys(all[n:])...), failed
		}
		all = all[n:]
	}
	return rev, left, nil
}

// alone is write with a transaction for each change.
func (w *Writer) alone(ctx context.Context, all []change, lease *etcd.Lease) (rev int64, left []string, err error) {
	for i := range all {
		written, one, err := w.write(ctx, all[i:i+1], lease)
		rev, left = max(rev, written), append(left, one...)
		if err != nil {
			return rev, append(left, keys(all[i+1:])...), err
		}
	}
	return rev, left, nil
}

// neverTaken reports whether the log refused a transaction because of its content.
func neverTaken(err error) bool { return errors.Is(err, rpctypes.ErrRequestTooLarge) }

// groupSize returns how many changes to write together: all of them are equally urgent.
func groupSize(all []change) int {
	size := 0
	for i, c := range all {
		size += len(c.Key) + len(c.Value)
		if i > 0 && (i == groupChanges || size > groupBytes || c.need != all[0].need) {
			return i
		}
	}
	return len(all)
}

func plain(all []change) []etcd.Change {
	changes := make([]etcd.Change, len(all))
	for i, c := range all {
		changes[i] = c.Change
	}
	return changes
}

func keys(all []change) []string {
	var some []string
	for _, c := range all {
		some = append(some, c.Key)
	}
	return some
}

// wrote records under which lease sessions were written.
func (w *Writer) wrote(all []change, stale []string, lease *etcd.Lease) {
	for _, c := range all {
		if c.Key == c.agent.Key() && c.Value != nil && !slices.Contains(stale, c.Key) {
			w.under[c.agent] = lease
		}
	}
}

// session returns the change that writes a session; false if nothing has to be written. It does not
// end a session that another hub has, and leaves it there under a new lease.
func (w *Writer) session(state table.Reader, agent key.Session, n noted, lease *etcd.Lease) (etcd.Change, bool) {
	row := state.Get(agent.Key())
	c := etcd.Change{Op: etcd.Op{Key: agent.Key()}}
	other := false
	if row != nil {
		c.Seen, other = row.ModRev, readSession(row).Hub != w.member.ID()
	}
	if n.is == nil {
		delete(w.under, agent)
		return c, row != nil && !other
	}
	if other && n.why == released {
		return c, false
	}
	value, err := json.Marshal(n.is)
	c.Value, c.Under = value, lease
	same := row != nil && bytes.Equal(row.Value, value) && w.under[agent] == lease
	return c, err == nil && !same
}

// patched returns the change that applies a patch to the stored status of an agent; false if
// nothing has to be written, or the location does not exist.
func (w *Writer) patched(state table.Reader, agent key.Session, p Patch) (etcd.Change, bool) {
	location, row := state.Get(agent.Location.Key()), state.Get(agent.StatusKey())
	c := etcd.Change{Op: etcd.Op{Key: agent.StatusKey()}}
	if location == nil {
		return c, false
	}
	stored := AgentStatus{UID: location.Meta.UID}
	var old []byte
	if row != nil {
		c.Seen = row.ModRev
		var previous AgentStatus
		if json.Unmarshal(row.Value, &previous) == nil && previous.UID == stored.UID {
			stored, old = previous, row.Value
		}
	}
	before := stored
	if p.Status != nil {
		stored.Status, stored.SignedBy = p.Status, p.SignedBy
	}
	if p.Refused != nil {
		stored.Refused = *p.Refused
	}
	if p.Strange != nil {
		stored.Strange = *p.Strange
	}
	if p.Exceeds != nil {
		stored.Exceeds = *p.Exceeds
	}
	if p.LastSeen != nil {
		stored.LastSeen = p.LastSeen.UTC().Truncate(time.Second)
	}
	if row == nil && p.Status == nil && stored == before { // a new session has no status yet
		return c, false
	}
	value, cut, err := encode(stored)
	if cut {
		w.logger.Warn("the status of an agent is too large: it is not stored", "location", agent.Location)
	}
	switch {
	case err != nil || cut:
		c.Value = value
	case p.Status != nil && p.Text == nil: // drop the unknown fields of the previous status
		c.Value = over(value, old, before, status(value))
	default:
		c.Value = over(value, old, before, p.Text)
	}
	return c, err == nil && (row == nil || !bytes.Equal(c.Value, row.Value))
}
