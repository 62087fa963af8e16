package mapper

import (
	"math"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/target"
)

// sighting is one object as a list or a watch showed it.
type sighting struct {
	object key.Object // Space is from the object's label
	ours   bool
	gone   bool
	seen   decide.Observed
	status uint64 // hash of the status; zero if there is none
	ended  string // how it ran to its end; empty: it did not
}

// self is the owner as whom the location marks objects; empty until it is known.
func (e *engine) self() marks.Owner {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.as
}

// identify sets the owner as whom the location marks objects. If it changes, nothing is
// known of the target until it is listed anew: lists, watches and turns under way go by
// the marks of the former owner, and what they see no longer counts.
func (e *engine) identify(as marks.Owner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.as == as {
		return
	}
	e.as = as
	for _, k := range e.kinds {
		k.sight = decide.Unseen
	}
	for _, it := range e.items {
		e.sees(it, decide.Observed{})
	}
	e.news.Raise()
}

// observe notes objects at the target that were found by the marks of an owner, and
// queues those that are not as they were known. It returns the indices of those whose
// status is asked for and has changed.
func (e *engine) observe(as marks.Owner, all []sighting) []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if as != e.as {
		return nil
	}
	var statuses []int
	for i := range all {
		s := &all[i]
		it, ok := e.items[s.object.Identity.String()]
		if !ok {
			if !s.ours || s.gone || e.kinds[s.object.Resource] == nil {
				continue
			}
			it, _ = e.item(s.object)
			it.spaces = []key.Space{s.object.Space}
		}
		if s.ours && s.ended != "" {
			e.endings[it.id] = decide.Ending{UID: s.seen.UID, How: s.ended}
		}
		// Until the first list is complete nothing can be decided; then all have a turn.
		if e.notice(it, s) && it.kind.sight == decide.Absent {
			e.queue.push(it)
		}
		if it.status && s.ours && s.status != it.statusHash {
			it.statusHash = s.status
			statuses = append(statuses, i)
		}
	}
	e.wake.Broadcast()
	return statuses
}

// notice updates what is known of an item. It returns true if the object is another one,
// or has changed.
func (e *engine) notice(it *item, s *sighting) bool {
	if s.seen.Revision != 0 && s.seen.Revision < it.seen.Revision {
		return false // the answer to a request of ours was newer
	}
	now := s.seen
	switch {
	case s.gone:
		now = decide.Observed{Presence: decide.Absent, Revision: s.seen.Revision}
	case s.ours:
		now.Presence = decide.Present
	case it.seen.Presence == decide.Present && it.seen.UID == now.UID:
		now.Presence, now.Unmarked = decide.Present, true
	default: // it has our label, but is not ours
		if it.seen.Presence == decide.Unseen {
			e.sees(it, decide.Observed{Presence: decide.Absent})
		}
		return false
	}
	before := it.seen
	e.sees(it, now)
	before.Revision, now.Revision = 0, 0
	return before != now
}

// saw notes at once what the answer to a request of ours showed. The watch then shows
// nothing new, and no second turn is needed.
func (e *engine) saw(it *item, as marks.Owner, seen decide.Observed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answered(it, as, seen)
}

// answered notes what an answer showed, unless something newer was seen or the owner has
// changed since.
func (e *engine) answered(it *item, as marks.Owner, seen decide.Observed) {
	if as == e.as && seen.Revision >= it.seen.Revision {
		e.sees(it, seen)
	}
}

// unordered stands for the revision of a list whose revision is not a number.
const unordered = math.MaxUint64

// sees replaces what was observed of an item.
func (e *engine) sees(it *item, now decide.Observed) {
	switch {
	case now.Presence != decide.Present || !now.Terminating:
		it.doomed = 0
	case it.doomed == 0 || it.seen.UID != now.UID:
		it.doomed = max(1, e.open.at(time.Now()))
	}
	it.seen = now
}

// synced notes that the list of a kind is complete: what it did not show and has not
// changed since is absent. It queues all items of the kind.
func (e *engine) synced(as marks.Owner, r key.Resource, shown map[string]struct{}, revision uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.kinds[r]
	if !ok || as != e.as {
		return
	}
	k.sight = decide.Absent
	for id, it := range e.items {
		if it.kind != k {
			continue
		}
		if _, ok := shown[id]; !ok && it.seen.Revision <= revision {
			now := decide.Observed{Presence: decide.Absent}
			if revision != unordered {
				now.Revision = revision
			}
			e.sees(it, now)
		}
		e.queue.push(it)
	}
	e.wake.Broadcast()
}

// blinded notes that a kind is blind, and the cause, which reports name.
func (e *engine) blinded(r key.Resource, cause string) {
	e.mu.Lock()
	if k := e.kinds[r]; k != nil {
		k.cause = cause
	}
	e.mu.Unlock()
	e.lost(r, decide.Blind)
}

// lost notes that a kind is not observed, since it is unserved or blind, and queues its
// items if that is news.
func (e *engine) lost(r key.Resource, why decide.Presence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.kinds[r]
	if !ok || k.sight == why {
		return
	}
	k.sight = why
	for _, it := range e.items {
		if it.kind == k {
			e.sees(it, decide.Observed{})
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}

// move has a kind observed in another version, unless it changed since from was taken.
func (e *engine) move(from use, to target.Served) {
	e.mu.Lock()
	k := e.kinds[from.Resource]
	news := k == from.of && k.version == from.Version
	if news {
		k.version, k.name = to.Version, to.Kind
	}
	e.mu.Unlock()
	if news {
		e.news.Raise()
	}
}

// use is what is to be observed of a kind.
type use struct {
	target.Place
	kind   string
	status bool
	// of is the kind's entry in the engine: an equal use of another entry begins with
	// nothing seen, so the kind is listed again.
	of *kind
}

// uses is what is to be observed.
func (e *engine) uses() map[key.Resource]use {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[key.Resource]use, len(e.kinds))
	for r, k := range e.kinds {
		if k.version != "" {
			all[r] = use{Place: target.Place{Resource: r, Version: k.version}, kind: k.name, status: k.status > 0, of: k}
		}
	}
	return all
}

// forgetStatus notes that the store did not keep the statuses of items.
func (e *engine) forgetStatus(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if it, ok := e.items[id]; ok {
			it.statusHash = 0
		}
	}
}

// again queues items.
func (e *engine) again(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if it, ok := e.items[id]; ok {
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}
