package mapper

import (
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

const (
	// failingKind is how many failures in a row make a kind one that fails, and
	// failingShare how many of its items may then be worked on at once.
	failingKind  = 5
	failingShare = 2
)

// item is what the agent keeps in memory of one identity at the target. It is
// guarded by the engine's lock.
type item struct {
	id   string // key.Identity as a string
	kind *kind
	// spaces are those that have, or had and still report, a source for it.
	spaces []key.Space
	// wanted says that some space has a desired entry, status that one asks for status.
	wanted, status bool
	// slotted says that it waited for its turn to have its pair refreshed.
	slotted    bool
	proof      marks.Proof
	seen       observed
	statusHash uint64
	state      wire.State // as last reported, for the winner

	queue    queueState
	due      time.Time
	failures uint8
	repairs  uint8
	repaired time.Time
	// doomed is since when, as far as this process knows, the object there is being
	// deleted, by the engine's open time; zero: it is not.
	doomed time.Duration
	leave  *leave // nil: it is not on its way out
}

func (it *item) priority() priority { return priorityOf(it.kind.rank, !it.wanted) }

// kind is one resource in use at the target. It is guarded by the engine's lock.
type kind struct {
	resource      key.Resource
	rank          rank
	version, name string // of the objects: v1, ConfigMap
	items, status int    // how many items there are, and how many ask for status
	sight         presence
	cause         string // why it is blind
	// running counts items with a worker, or whose outcome is being written;
	// failures are those in a row, of whichever items.
	running, failures int
}

// mayRun says whether one more item of the kind may have a worker: all may, but
// of a kind that fails, perhaps after a long time each, only a few at once.
func (k *kind) mayRun() bool { return k.failures < failingKind || k.running < failingShare }

// stray says that it is at the target and not desired.
func (it *item) stray() bool { return !it.wanted && it.seen.presence == present }

// desired says that some space has it desired.
func (it *item) desired() bool { return it.wanted }

// unobservable says that nothing tells how to observe it: only a report of it is left.
func (it *item) unobservable() bool { return it.kind.version == "" }

// missing says that nothing is at the target under the identity, that it was tried
// to change that, and that nobody is trying just now.
func (it *item) missing() bool {
	nothing := it.kind.sight == unserved || it.kind.sight == absent && it.seen.presence == absent && !it.seen.taken
	return nothing && it.state != "" && it.queue != running && it.queue != again
}

// parseIdentity takes apart what key.Identity.String made.
func parseIdentity(id string) key.Identity {
	parsed, err := key.ParseIdentity(id)
	if err != nil { // items are made of identities only
		panic(err)
	}
	return parsed
}

// home is the space whose turn is used for the item.
func (it *item) home() key.Space {
	if len(it.spaces) == 0 {
		return ""
	}
	return it.spaces[0]
}
