package worklist

import (
	"math"
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
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

// Changed is a sighting of which the store is to keep how the object does.
type Changed struct {
	At   int  // index among the sightings
	Asks bool // its status, too
}

// Self is the owner as whom the location marks objects; empty until it is known.
func (e *Worklist) Self() ownership.Owner {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.as
}

// Identify sets the owner as whom the location marks objects. If it changes, nothing is
// known of the target until it is listed anew: lists, watches and turns under way go by
// the marks of the former owner, and what they see no longer counts.
func (e *Worklist) Identify(as ownership.Owner) {
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
		it.sees(decide.Observed{}, 0)
	}
	e.News.Raise()
}

// Observe notes objects at the target that were found by the marks of an owner, and
// queues those that are not as they were known. It returns those of which something else
// than before is to be reported. list is the revision of the list that showed them: knowledge as of
// that revision or before no longer counts. 0: a watch showed them, or a list of some.
func (e *Worklist) Observe(as ownership.Owner, all []Sighting, list uint64) []Changed {
	e.mu.Lock()
	defer e.mu.Unlock()
	if as != e.as {
		return nil
	}
	now := e.open.at(time.Now())
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
		if it.asks {
			live = s.Status
		}
		if live != 0 && s.Ours && !s.Gone && live != it.live {
			it.live = live
			changed = append(changed, Changed{At: i, Asks: it.asks})
		}
	}
	e.wake.Broadcast()
	return changed
}

// Saw notes at once what the answer to a request of ours showed. The watch then shows
// nothing new, and no second turn is needed. v is the view of the turn that made the request.
func (e *Worklist) Saw(it *Item, v *View, seen decide.Observed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.As == e.as && v.History == it.kind.history { // or else it is of the location or the cluster as it was before
		it.answered(seen, e.open.at(time.Now()))
	}
}

// Unordered stands for the revision of a list whose revision is not a number.
const Unordered = math.MaxUint64

// Synced notes that the list of a kind is complete: what it did not show and has not
// changed since is absent. It queues all items of the kind, first those that are not as they were
// left: an agent that starts has all of them to look at, and few to repair.
func (e *Worklist) Synced(as ownership.Owner, r key.Resource, shown map[string]struct{}, revision uint64) {
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
			it.sees(now, 0)
		}
		e.queue.push(it)
	}
	e.wake.Broadcast()
}

// changedFirst queues the items of a kind that are not as they were left.
func (e *Worklist) changedFirst(k *kind) {
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
func (e *Worklist) Lost(r key.Resource, why decide.Existence, cause string) {
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
			it.sees(decide.Observed{}, 0)
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}

// Move has a kind observed in another version, unless it changed since from was taken.
func (e *Worklist) Move(from Use, to kubeclient.Served) {
	e.mu.Lock()
	k := e.kinds[from.Resource]
	news := k == from.of && k.version == from.Version
	if news {
		k.version, k.name = to.Version, to.Kind
	}
	e.mu.Unlock()
	if news {
		e.News.Raise()
	}
}

// Use is what is to be observed of a kind.
type Use struct {
	kubeclient.Place
	Kind string
	// Asked changes when a status is asked for that no watch need show: the kind is to be
	// listed again.
	Asked uint32
	// of is the kind's entry in the engine: an equal use of another entry begins with
	// nothing seen, so the kind is listed again.
	of *kind
}

// Uses is what is to be observed.
func (e *Worklist) Uses() map[key.Resource]Use {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[key.Resource]Use, len(e.kinds))
	for r, k := range e.kinds {
		if k.version != "" {
			all[r] = Use{Place: kubeclient.Place{Resource: r, Version: k.version}, Kind: k.name, Asked: k.asked, of: k}
		}
	}
	return all
}

// ForgetLive notes that the store did not keep how items were seen.
func (e *Worklist) ForgetLive(ids []string) {
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
	if it, ok := e.items[id]; ok && it.leftOut != int32(n) {
		it.leftOut = int32(n)
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

// Adopt makes items of objects of ours, so that their kind is observed, and they are
// removed if nobody desires them.
func (e *Worklist) Adopt(of kubeclient.Served, ours []key.Located) {
	if len(ours) == 0 {
		return
	}
	e.mu.Lock()
	for _, o := range ours {
		it, _ := e.item(o.Object, o.Moved)
		if k := it.kind; k.version == "" {
			k.version, k.name = of.Version, of.Kind
		}
		if !it.wanted {
			e.leaves.leaving(it, o.Space)
		}
		e.queue.push(it)
	}
	e.wake.Broadcast()
	e.mu.Unlock()
	e.News.Raise()
}

// Teach sets the version and kind in which a resource is observed, unless they are known.
func (e *Worklist) Teach(s kubeclient.Served) {
	e.mu.Lock()
	k := e.kinds[s.Resource]
	news := k != nil && k.version == ""
	if news {
		k.version, k.name = s.Version, s.Kind
	}
	e.mu.Unlock()
	if news {
		e.News.Raise()
	}
}
