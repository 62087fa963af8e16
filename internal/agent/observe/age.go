package observe

import (
	"log/slog"
	"sync"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// Age finds out whether the store is older than the objects at the target. This is so after the snapshot of a
// machine was restored, or while another agent serves the location. Each object names the log position of the
// agent's last write, and the store has the latest log position.
//
// Objects of the first list of a kind are compared with the position of the store at the start of the process,
// since the process has not written such objects yet. Later writes of the process have at most the current
// position of the store, so an object with a later position was written by another agent. While a session proves
// the desired objects, another writer can only have changed the annotation.
type Age struct {
	store  *store.Store
	proves func() bool
	newer  func(id key.Identity, log ownership.Pair)
	log    *slog.Logger
	began  int64
	// knowsPart is set if the store had another part of the location before.
	knowsPart bool

	mu   sync.Mutex
	late map[key.Resource]struct{} // kinds that were listed
	done bool
}

// NewAge makes an Age of a store as it is now, of a part of the location. Agents of a shard may stand
// by while another writes, and their Leases name the store of the one that last did. proves reports whether a session proves the desired
// content. newer is called once, when an object shows that the store is older. It must not block.
func NewAge(s *store.Store, shard key.Shard, proves func() bool, newer func(id key.Identity, log ownership.Pair), log *slog.Logger) *Age {
	return &Age{
		store: s, proves: proves, newer: newer, log: log, began: s.Meta().Newest(), late: map[key.Resource]struct{}{},
		knowsPart: s.Meta().Gained, done: !shard.Whole(),
	}
}

// listed records that a kind was listed once, or that it can't be listed.
func (a *Age) listed(r key.Resource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late[r] = struct{}{}
}

// saw compares the store with an object of the location.
func (a *Age) saw(as ownership.Owner, id key.Identity, m *ownership.Meta) {
	log := m.Log()
	if log.Revision <= a.began {
		return
	}
	a.mu.Lock()
	_, late := a.late[id.Resource]
	done := a.done
	a.mu.Unlock()
	if done || !late && a.began == 0 || // a new store has no claims
		late && (log.Revision <= a.store.Meta().Newest() || a.proves()) || !m.WroteLog(as) {
		return
	}
	var rec *store.Record
	if err := a.store.View(func(t *store.Tx) (err error) {
		rec, err = t.Records.Get(id.String())
		return err
	}); err != nil {
		a.log.Error("the store can't be compared with the cluster", "object", id.String(), "error", err)
		return
	}
	if rec != nil && rec.Source.Log == log || rec == nil && (a.knowsPart || a.store.Meta().Fresh) {
		return // the object has a log position from before an acceptance, or the store need not have it
	}
	a.mu.Lock()
	done, a.done = a.done, true
	a.mu.Unlock()
	if !done {
		a.newer(id, log)
	}
}
