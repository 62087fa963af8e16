package hub

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/election"
	"orrery.dev/orrery/internal/presence"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/version"
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
	of := &hubs{}
	of.member = presence.NewMember(presence.Config{
		Log: h.log, Table: h.table, Is: presence.Hub{URL: h.contact.URL(), Version: version.Get()},
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
	return max(h.table.Rev()-int64(h.config.WindowRevisions), h.table.Oldest(), h.log.Resealed().Floor)
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
// every write, the others can't say how far they are, and only this hub counts.
func (h *Hub) reached() int64 {
	reached := h.table.Rev()
	if h.log.Usage().Alarm {
		return reached
	}
	for _, other := range h.others() {
		reached = min(reached, other.Seen)
	}
	return reached
}

// keep keeps the log within its quota; this hub compacts it if it is elected to.
func (h *Hub) keep(ctx context.Context) error {
	return h.log.Keep(ctx, store.Keeping{
		Every: h.config.CompactEvery, Floor: h.floor, Reached: h.reached,
		Elected: func() bool { return h.hubs.elections.Held(compacting) },
		Before:  h.gate.LeaveTrace, Quiet: h.config.Quiet, Pace: h.config.Pace,
	})
}

// stand stands for the election to a concern that is not a loop of its own.
func stand(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
