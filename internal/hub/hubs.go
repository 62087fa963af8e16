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

// embeddedLease is the lease of a hub whose log is in its own process. Nobody waits for its
// end, so it is longer than a process is ever held up.
const embeddedLease = time.Minute

// compacting is the concern of forgetting history, resealing that of writing again what is
// kept by an older key. The controllers are concerns by their names.
const (
	compacting = "compaction"
	resealing  = "resealing"
)

// hubs is this hub among those that share its log.
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

// halt is a revision that a hub has been at since a time.
type halt struct {
	at    int64
	since time.Time
}

// stands says whether a hub, which says that it is at a revision, has not got on for a time
// while there is no room.
func (of *hubs) stands(id string, at int64, now time.Time, most time.Duration) bool {
	was, known := of.behind[id]
	if !known || was.at != at {
		was = halt{at, now}
		of.behind[id] = was
	}
	return now.Sub(was.since) >= most
}

// among makes what the hub needs to be one of several.
func (h *Hub) among() *hubs {
	ttl, silent := h.config.Lease, func(is bool) {
		if is {
			h.sessions.Cut()
		}
	}
	if h.log.Embedded() {
		ttl, silent = max(ttl, embeddedLease), nil
	}
	of := &hubs{behind: map[string]halt{}}
	of.member = presence.NewMember(presence.Config{
		Log: h.log, Table: h.table, Newer: h.newer,
		Is:    presence.Hub{URL: h.contact.URL(), Version: process.Version(), Schema: schemaversion.Version(), Kinds: schemaversion.Changed()},
		Needs: h.needs, Window: h.config.WindowRevisions, Alone: func() bool { return of.elections.Held(compacting) },
		TTL: ttl, Silent: silent, Logger: h.config.Logger,
	})
	of.writer = presence.NewWriter(h.log, h.table, of.member, h.config.Logger)
	of.elections = election.New(h.log, h.table, of.member, h.config.Logger)
	return of
}

// needs is the oldest revision that readers of this hub can resume from. What was kept by an
// older key is not to stay in the history either.
func (h *Hub) needs() int64 {
	return max(h.table.Rev()-int64(h.config.WindowRevisions), h.table.Oldest(), h.log.Resealer().Progress().Floor)
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

// reached is a revision that the tables of all hubs have reached. When etcd itself refuses
// every write, the others can't say how far they are, and only this hub counts. While there is
// no room nobody waits for longer than a lease for a hub that does not get on, though its lease is
// kept: it will load its table anew.
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
		maps.DeleteFunc(others, func(id string, o presence.Hub) bool { return h.hubs.stands(id, o.Seen, now, h.config.Lease) })
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
