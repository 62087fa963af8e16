package worklist

import (
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// failingKind is how many failures in a row make a kind one that fails, and
	// failingShare how many of its items may then be worked on at once.
	failingKind  = 5
	failingShare = 2
)

// Item is what the agent keeps in memory about one identity at the target. The lock of the
// worklist guards it.
//
// There is one for each object, so it is small: rare values are behind a pointer, and equal values
// of many items are shared.
type Item struct {
	ID   string // key.Identity as a string
	kind *kind
	// spaces are those that have a source for it, or had one and still have a report.
	spaces spaces
	// moved is that of key.Located; where it is not empty, there is one space.
	moved short[string]
	actor *actor // nil: the account that acts for it is not known yet
	seen  seen
	live  uint64            // hash of what the store has of how it was seen; zero: it has nothing
	state short[wire.State] // as last reported, for the winner
	// when is when it was last made ready, or, if it is idle, when it is to be; zero: it is not.
	when    time.Duration
	repairs *repairs // nil: drift in it was never repaired
	// terminatingSince is the open time at which this process first saw the object being
	// deleted; zero: it is not.
	terminatingSince time.Duration
	leave            *leave // nil: it is not being removed
	// unreturned counts the objects that it owns and that are not reported.
	unreturned int32
	// wanted is true if a space has a desired entry, and wantsStatus if the entry requests the status.
	wanted, wantsStatus bool
	// slotted is true if it has waited for its slot to have its pair refreshed.
	slotted bool
	// retried is true from the time when the item was made ready after a failure until its turn ends.
	retried  bool
	proof    ownership.Proof
	queue    queueState
	failures uint8
}

func (it *Item) priority() priority { return priorityOf(it.kind.rank, !it.wanted) }

// kind is one resource in use at the target. The engine's lock guards it.
type kind struct {
	resource      key.Resource
	rank          rank
	version, name string // of the objects: v1, ConfigMap
	items         int
	// statusRequests counts the items whose status was first requested after they had been
	// observed: a list shows it.
	statusRequests uint32
	actors         map[string]*actor
	// sight is Unseen, Unserved or Blind while the kind is not observed; Absent: it is,
	// and each item has a value of its own.
	sight decide.Existence
	cause string // why it is blind
	// history counts how often what was seen was forgotten, since the cluster was restored.
	history uint32
	// running counts items that have a worker, or whose outcome is being written, and retried those
	// of them whose last turn failed; failures counts failures in a row, over all items.
	running, retried, failures int
}

// mayRun reports whether one more item of the kind may have a worker: of those whose last turn failed,
// or of the others. Of a kind that keeps failing, only a few of each may at once: each may take until
// it times out.
func (k *kind) mayRun(failing bool) bool {
	under := k.running - k.retried
	if failing {
		under = k.retried
	}
	return k.failures < failingKind || under < failingShare
}

// run counts an item that begins (1) or ends (-1) its turn.
func (k *kind) run(it *Item, n int) {
	k.running += n
	if it.retried {
		k.retried += n
	}
}

// Stray reports whether the object is at the target and not desired.
func (it *Item) Stray() bool { return !it.wanted && it.seen.existence == decide.Present }

// Desired reports whether a space has a desired entry for it.
func (it *Item) Desired() bool { return it.wanted }

// unobservable reports whether no version of its kind is known: only a report of it is left.
func (it *Item) unobservable() bool { return it.kind.version == "" }

// missing reports whether nothing is at the target under the identity although the agent has
// tried to apply it, and no worker is trying now.
func (it *Item) missing() bool {
	nothing := it.kind.sight == decide.Unserved || it.kind.sight == decide.Absent && it.seen.existence == decide.Absent && !it.seen.is(taken)
	return nothing && !it.state.empty() && it.queue != running && it.queue != again
}

// over reports whether nothing of the object is left at the target, and only that is still
// reported.
func (it *Item) over() bool {
	return !it.wanted && it.state.value() == wire.Removed && it.seen.existence != decide.Present
}

// Identity is that of the item.
func (it *Item) Identity() key.Identity { return parseIdentity(it.ID) }

// parseIdentity takes apart what key.Identity.String made.
func parseIdentity(id string) key.Identity {
	parsed, err := key.ParseIdentity(id)
	if err != nil { // only valid identities become items
		panic(err)
	}
	return parsed
}

// home is the space in whose line the item queues.
func (it *Item) home() key.Space {
	return it.spaces.first()
}

// located is the item as an object of the space in whose line it queues.
func (it *Item) located() key.Located {
	return key.Located{Object: key.Object{Space: it.home(), Identity: it.Identity()}, Moved: it.moved.value()}
}

// Stays reports whether the object stays at the target by its reported state.
func (it *Item) Stays() bool { return it.state.value() == wire.Orphaned }

// LeftOver reports whether the object stays though it is not desired.
func (it *Item) LeftOver() bool { return it.Stays() && !it.wanted }

// learn takes from an entry what is needed to observe its kind. It returns true if that
// has changed.
func (it *Item) learn(w *store.Want) bool {
	k, changed := it.kind, false
	// Any version shows all objects; another is tried only if this one is not served.
	if w.Version != "" && (k.version == "" || k.sight == decide.Unserved && k.version != w.Version) {
		k.version, k.name, changed = w.Version, w.ObjectKind, true
	}
	if w.Object() != nil {
		it.actsAs(w.Object().Policy.ServiceAccount)
	}
	if w.Object() == nil { // only an entry with an object has the policy of its status
		return changed
	}
	returns := w.Object().Policy.ReturnStatus
	began := returns && !it.wantsStatus && it.seen.existence == decide.Present && health.HasStatus(k.resource)
	it.wantsStatus = returns || it.wantsStatus && !it.spaces.none() && !it.spaces.one() // another space's entry may request it
	if began {
		k.statusRequests++
	}
	return changed || began
}

// leave is the state of the removal of an item. Its times are open time.
type leave struct {
	space key.Space
	// scopes are those in which it holds up other items.
	scopes []scope
	// began is when its removal was first tried; never: it has not been.
	began time.Duration
	// held is since when it waits for others; never: it does not. awaits is the scope
	// that it waits for, named one of the items in that.
	held   time.Duration
	awaits scope
	named  *Item
	// emptySince is since when nothing that it aggregates is left; never: something is.
	emptySince time.Duration
}
