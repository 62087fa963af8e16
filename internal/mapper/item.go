package mapper

import (
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

const (
	// failingKind is how many failures in a row make a kind one that fails, and
	// failingShare how many of its items may then be worked on at once.
	failingKind  = 5
	failingShare = 2
)

// item is what the agent keeps in memory about one identity at the target. The
// engine's lock guards it.
type item struct {
	id   string // key.Identity as a string
	kind *kind
	// spaces are those that have a source for it, or had one and still have a report.
	spaces []key.Space
	// wanted says that some space has a desired entry, status that one asks for status.
	wanted, status bool
	// slotted says that it has waited for its slot to have its pair refreshed.
	slotted    bool
	proof      marks.Proof
	seen       decide.Observed
	statusHash uint64
	state      wire.State // as last reported, for the winner

	queue    queueState
	due      time.Time
	failures uint8
	repairs  uint8
	repaired time.Time
	// doomed is the engine's open time at which this process first saw the object being
	// deleted; zero: it is not.
	doomed time.Duration
	leave  *leave // nil: it is not being removed
}

func (it *item) priority() priority { return priorityOf(it.kind.rank, !it.wanted) }

// kind is one resource in use at the target. The engine's lock guards it.
type kind struct {
	resource      key.Resource
	rank          rank
	version, name string // of the objects: v1, ConfigMap
	items, status int    // how many items there are, and how many ask for status
	// sight is unseen, unserved or blind while the kind is not observed; absent: it is,
	// and each item's own presence counts.
	sight decide.Presence
	cause string // why it is blind
	// running counts items that have a worker, or whose outcome is being written;
	// failures counts failures in a row, over all items.
	running, failures int
}

// mayRun says whether one more item of the kind may have a worker. Of a kind that keeps
// failing, only a few may at once: each may take until it times out.
func (k *kind) mayRun() bool { return k.failures < failingKind || k.running < failingShare }

// stray says that the object is at the target and not desired.
func (it *item) stray() bool { return !it.wanted && it.seen.Presence == decide.Present }

// desired says that some space has a desired entry for it.
func (it *item) desired() bool { return it.wanted }

// unobservable says that no version of its kind is known: only a report of it is left.
func (it *item) unobservable() bool { return it.kind.version == "" }

// missing says that nothing is at the target under the identity although the agent has
// tried to apply it, and that no worker is trying now.
func (it *item) missing() bool {
	nothing := it.kind.sight == decide.Unserved || it.kind.sight == decide.Absent && it.seen.Presence == decide.Absent && !it.seen.Taken
	return nothing && it.state != "" && it.queue != running && it.queue != again
}

// parseIdentity takes apart what key.Identity.String made.
func parseIdentity(id string) key.Identity {
	parsed, err := key.ParseIdentity(id)
	if err != nil { // only valid identities become items
		panic(err)
	}
	return parsed
}

// home is the space in whose line the item queues.
func (it *item) home() key.Space {
	if len(it.spaces) == 0 {
		return ""
	}
	return it.spaces[0]
}
