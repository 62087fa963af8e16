package hub

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/hub/kinds/schemaversion"
	"orrery.dev/orrery/internal/hub/storage/election"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/lib/process"
)

// embeddedLease is the lease duration of a hub with an embedded log. No other hub waits for its end, so it
// is longer than any pause of the process.
const embeddedLease = time.Minute

// compacting is the elected task that compacts the history, resealing the one that encrypts values again
// that have an older key. The name of a controller is that of its task.
const (
	compacting = "compaction"
	resealing  = "resealing"
)

// hubs is the membership of this hub among those that share its log.
type hubs struct {
	member    *presence.Member
	writer    *presence.Writer
	elections *election.Elections
	// compacts is the context of this hub's election to forget history; nil: another is elected.
	compacts atomic.Pointer[context.Context]
	// behind is how far other hubs were, and since when, while there was no room. It is of the
	// loop that keeps the log alone.
	behind map[string]halt
}

// halt is a revision from which a hub has not advanced since a time.
type halt struct {
	rev   int64
	since time.Time
}

// isStalled reports whether a hub, whose published revision is rev, has not advanced for the duration most
// while the log has no space.
func (m *hubs) isStalled(id string, rev int64, now time.Time, most time.Duration) bool {
	previous, known := m.behind[id]
	if !known || previous.rev != rev {
		previous = halt{rev, now}
		m.behind[id] = previous
	}
	return now.Sub(previous.since) >= most
}

// join returns the membership of this hub among the hubs on the log.
func (h *Hub) join() *hubs {
	ttl, silent := h.config.Lease, func(is bool) {
		if is {
			h.sessions.Cut()
		}
	}
	if h.log.Embedded() {
		ttl, silent = max(ttl, embeddedLease), nil
	}
	membership := &hubs{behind: map[string]halt{}}
	membership.member = presence.NewMember(presence.Config{
		Log: h.log, Table: h.table, Newer: h.newer,
		Is:    presence.Hub{URL: h.endpoints.URL(), Version: process.Version(), Schema: schemaversion.Version(), Kinds: schemaversion.Changed()},
		Needs: h.needs, Window: h.config.WindowRevisions, Alone: func() bool { return membership.elections.Held(compacting) },
		TTL: ttl, Silent: silent, Logger: h.config.Logger,
	})
	membership.writer = presence.NewWriter(h.log, h.table, membership.member, h.config.Logger)
	membership.elections = election.New(h.log, h.table, membership.member, h.config.Logger)
	return membership
}

// needs returns the oldest revision from which readers of this hub can resume. The history must also not
// keep values that are encrypted with an older key.
func (h *Hub) needs() int64 {
	return max(h.table.Rev()-int64(h.config.WindowRevisions), h.table.Oldest(), h.log.Reencryption().Progress().Floor)
}

// others are the hubs that live besides this one.
func (h *Hub) others() map[string]presence.Hub {
	all := presence.Hubs(h.table.Snapshot())
	delete(all, h.hubs.member.ID())
	return all
}

// floor is the oldest revision that readers of any hub can resume from.
func (h *Hub) floor() int64 {
	floor := h.needs()
	for _, other := range h.others() {
		floor = min(floor, other.Needs)
	}
	return floor
}

// reached returns a revision that the tables of all hubs have reached. When etcd refuses every write, other
// hubs can't publish their revisions, and only this hub counts. While the log has no space, a hub that does
// not advance is ignored after the duration of a lease, although its lease is valid: it then has to load its
// table again.
func (h *Hub) reached() int64 {
	reached := h.table.Rev()
	if h.log.Capacity().Usage().Alarm {
		return reached
	}
	others, now := h.others(), time.Now()
	if !h.log.Capacity().IsTight() {
		clear(h.hubs.behind)
	} else {
		maps.DeleteFunc(h.hubs.behind, func(id string, _ halt) bool { _, lives := others[id]; return !lives })
		maps.DeleteFunc(others, func(id string, o presence.Hub) bool { return h.hubs.isStalled(id, o.Seen, now, h.config.Lease) })
	}
	for _, other := range others {
		reached = min(reached, other.Seen)
	}
	return reached
}

// keep keeps the log within its quota; this hub compacts it if it is elected to.
func (h *Hub) keep(ctx context.Context) error {
	return h.log.Keep(ctx, etcd.Keeping{
		Every: h.config.CompactEvery, Seen: h.table.Rev, Floor: h.floor, Reached: h.reached, Elected: h.compacts,
		Before: h.gate.LeaveTrace, Quiet: h.config.Quiet, Throttle: h.config.Throttle,
	})
}

// standToCompact stands for the election to forget history, which the loop does that keeps the log.
func (h *Hub) standToCompact(ctx context.Context) error {
	mine := &ctx
	h.hubs.compacts.Store(mine)
	defer h.hubs.compacts.CompareAndSwap(mine, nil)
	<-ctx.Done()
	return ctx.Err()
}

// compacts is the context of this hub's election to forget history; nil: another is elected.
func (h *Hub) compacts() context.Context {
	if ctx := h.hubs.compacts.Load(); ctx != nil {
		return *ctx
	}
	return nil
}
