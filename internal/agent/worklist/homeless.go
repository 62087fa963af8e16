package worklist

import (
	"maps"
	"slices"
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// waitingRetry is how long an item waits for its Namespace at most before it has a turn by itself.
	waitingRetry = 10 * time.Minute
	// housedRetry is the wait of an item if its Namespace has arrived during its turn.
	housedRetry = time.Second
)

// homeless contains the items that wait for a Namespace, by the identity of the Namespace. One of them is the scout: it
// retries, and when it has found the Namespace, the others have a turn, too. The others do not retry meanwhile. If the
// scout leaves otherwise, which may concern no other item, only the next scout has a turn. It is guarded by the lock of
// the worklist.
type homeless map[string]*waiting

// waiting are the items that wait for one Namespace. They have no scout if that has left.
type waiting struct {
	scout *Item
	items map[*Item]struct{}
}

// finish records whether an item waits after its turn. It returns how long the item waits before its next turn, zero if
// it waits for nothing, and other items that are to have a turn now. first is true for the first turn of the
// item that had a result.
func (h *homeless) finish(it *Item, r Result, items map[string]*Item, first bool) (retry time.Duration, awake []*Item) {
	retry = r.Retry
	switch {
	case r.Outdated: // it has another turn at once, and has found out nothing about the Namespace
	case !r.Homeless:
		awake = h.leave(it, r.foundNamespace())
	case h.arrived(it, r, items):
		h.join(it)
		retry = min(retry, housedRetry)
	case !h.join(it):
		retry = max(retry, waitingRetry)
	}
	if w := (*h)[it.ID]; w != nil { // it is a Namespace
		awake = append(awake, h.wake(w, it.ID, first || it.seen.existence == decide.Present)...)
	}
	return retry, awake
}

// join adds an item to those that wait for its Namespace, and reports whether it is the scout.
func (h *homeless) join(it *Item) bool {
	if *h == nil {
		*h = homeless{}
	}
	in := home(it)
	w := (*h)[in]
	if w == nil {
		w = &waiting{items: map[*Item]struct{}{}}
		(*h)[in] = w
	}
	w.items[it] = struct{}{}
	if w.scout == nil {
		w.scout = it
	}
	return w.scout == it
}

// foundNamespace reports whether a turn shows that the Namespace of its item exists: the object exists in it.
func (r Result) foundNamespace() bool {
	exists := r.State == wire.Applied || r.Seen != nil && (r.Seen.Existence == decide.Present || r.Seen.Taken)
	return exists && r.Wanted && !r.Failed && !r.Withheld
}

// leave removes an item from those that wait for its Namespace. If it was the scout, leave returns the items to wake:
// all others if all is set, and otherwise one, which becomes the scout. All is unset if the item has left without
// finding the Namespace: it is not desired any more, its turn has failed, or its entry has no object any more.
func (h *homeless) leave(it *Item, all bool) []*Item {
	if len(*h) == 0 {
		return nil
	}
	in := home(it)
	w := (*h)[in]
	if w == nil {
		return nil
	}
	if _, waits := w.items[it]; !waits {
		return nil
	}
	if delete(w.items, it); len(w.items) == 0 {
		delete(*h, in)
		return nil
	}
	if w.scout != nil && w.scout != it {
		return nil
	}
	w.scout = nil
	return h.wake(w, in, all)
}

// wake returns all items that wait for a Namespace, which wait no more, or only the scout.
func (h *homeless) wake(w *waiting, namespace string, all bool) []*Item {
	if all {
		delete(*h, namespace)
		return slices.Collect(maps.Keys(w.items))
	}
	if w.scout != nil {
		return []*Item{w.scout}
	}
	for it := range w.items {
		return []*Item{it}
	}
	return nil
}

// arrived reports whether the Namespace for which an item waits has arrived since, or has had the turn for which the
// item waits.
func (h *homeless) arrived(it *Item, r Result, items map[string]*Item) bool {
	in := items[home(it)]
	return in != nil && (in.seen.existence == decide.Present || r.Untried && !in.state.empty())
}

// home is the identity of the Namespace of an item.
func home(it *Item) string {
	return key.Identity{Resource: key.Namespaces, Name: it.Identity().Namespace}.String()
}
