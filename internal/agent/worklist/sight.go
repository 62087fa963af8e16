package worklist

import (
	"math"
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// Sighting is one object as a list or a watch showed it.
type Sighting struct {
	Object key.Object // Space is from the object's label
	Moved  string     // see key.Located
	Ours   bool
	Gone   bool
	Seen   decide.Observed
	// Health is a hash of what is reported of how the object does, Status also of its
	// status; zero: only metadata was shown.
	Health, Status uint64
	Ended          string // how it ran to its end; empty: it did not
}

// Changed is a sighting whose live object the store is to keep.
type Changed struct {
	Index      int  // among the sightings
	WithStatus bool // the store keeps its status, too
}

// observation is the part of a worklist that receives the objects at the target.
type observation struct{ *state }

// Self returns the owner in the marks of the location; empty until it is known.
func (e observation) Self() ownership.Owner {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.as
}

// Identify sets the owner in the marks of the location. If it changes, nothing is
// known of the target until it is listed anew: lists, watches and turns under way go by
// the marks of the former owner, and what they see no longer counts.
func (e observation) Identify(as ownership.Owner) {
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
		it.setSeen(decide.Observed{}, 0)
	}
	e.News.Raise()
}

// Observe notes objects at the target that were found by the marks of an owner, and
// queues those that are not as they were known. It returns those of which something else
// than before is to be reported. list is the revision of the list that showed them: knowledge as of
// that revision or before no longer counts. 0: a watch showed them, or a list of some.
func (e observation) Observe(as ownership.Owner, all []Sighting, list uint64) []Changed {
	e.mu.Lock()
	defer e.mu.Unlock()
	if as != e.as {
		return nil
	}
	now := e.open.elapsed(time.Now())
	var changed []Changed
	for i := range all {
		s := &all[i]
		it, ok := e.items[s.Object.Identity.String()]
		if !ok {
			if !s.Ours || s.Gone || e.kinds[s.Object.Resource] == nil {
				continue
			}
			it, _ = e.item(s.Object, s.Moved)
		}
		if s.Ours && s.Ended != "" {
			e.endings[it.ID] = decide.Ending{UID: s.Seen.UID, How: s.Ended}
		}
		if e.unseen != nil && s.Ours && !s.Gone && e.unseen[it] == leftAs(s.Seen.UID, s.Seen.Fields) {
			e.shown(it)
		}
		// Until the first list is complete nothing can be decided; then all have a turn.
		if it.notice(s, list, now) && it.kind.sight == decide.Absent {
			e.queue.push(it)
		}
		live := s.Health
		if it.wantsStatus {
			live = s.Status
		}
		if live != 0 && s.Ours && !s.Gone && live != it.live {
			it.live = live
			changed = append(changed, Changed{Index: i, WithStatus: it.wantsStatus})
		}
	}
	e.wake.Broadcast()
	return changed
}

// Saw notes at once what the answer to a request of ours showed. The watch then shows
// nothing new, and no second turn is needed. v is the view of the turn that made the request.
func (e observation) Saw(it *Item, v *View, seen decide.Observed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.As == e.as && v.History == it.kind.history { // or else it is of the location or the cluster as it was before
		it.answered(seen, e.open.elapsed(time.Now()))
	}
}

// Unordered stands for the revision of a list whose revision is not a number.
const Unordered = math.MaxUint64

// Synced notes that the list of a kind is complete: what it did not show and has not
// changed since is absent. It queues all items of the kind, first those that are not as they were
// left: an agent that starts has all of them to look at, and few to repair.
func (e observation) Synced(as ownership.Owner, r key.Resource, shown map[string]struct{}, revision uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.kinds[r]
	if !ok || as != e.as {
		return
	}
	k.sight = decide.Absent
	e.changedFirst(k)
	for id, it := range e.items {
		if it.kind != k {
			continue
		}
		if _, ok := shown[id]; !ok && it.seen.revision <= revision {
			now := decide.Observed{Existence: decide.Absent}
			if revision != Unordered {
				now.Revision = revision
			}
			it.setSeen(now, 0)
		}
		e.queue.push(it)
	}
	e.wake.Broadcast()
}

// changedFirst queues the items of a kind that are not as they were left.
func (e observation) changedFirst(k *kind) {
	for it := range e.unseen {
		if it.kind != k {
			continue
		}
		e.shown(it)
		e.queue.push(it)
	}
}

// Lost notes that a kind is not observed, since it is unserved, or blind for a cause, and
// queues its items if that is news.
func (e observation) Lost(r key.Resource, why decide.Existence, cause string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.kinds[r]
	if !ok {
		return
	}
	k.cause = cause
	if k.sight == why {
		return
	}
	k.sight = why
	e.changedFirst(k)
	for _, it := range e.items {
		if it.kind == k {
			it.setSeen(decide.Observed{}, 0)
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}

// ForgetLive notes that the store did not keep how items were seen.
func (e observation) ForgetLive(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if it, ok := e.items[id]; ok {
			it.live = 0
		}
	}
}

// LeaveOut notes how many objects that belong to an item do not come back, and queues it if
// that is news.
func (e *Worklist) LeaveOut(id string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if it, ok := e.items[id]; ok && it.unreturned != int32(n) {
		it.unreturned = int32(n)
		e.queue.push(it)
		e.wake.Broadcast()
	}
}

// Again queues items.
func (e *Worklist) Again(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if it, ok := e.items[id]; ok {
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}
