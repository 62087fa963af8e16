package worklist

import (
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Result is the outcome of a worker's turn with an item.
type Result struct {
	// Seen replaces what was observed, unless that is newer; As is the owner by whose
	// marks it was seen, and History is that of the turn's View.
	Seen    *decide.Observed
	As      ownership.Owner
	History uint32
	// Gone are spaces that have neither an entry nor a report of the item any more.
	Gone    []key.Space
	Wanted  bool
	Forget  bool
	State   wire.State
	Retry   time.Duration
	Failed  bool
	Drifted bool
	Slotted bool
	Proof   ownership.Proof
	// ProofKnown is true if the proof is known, even if the turn failed.
	ProofKnown bool
	// Leaving is true while the item is being removed, and Held while it waits for other removals first.
	Leaving, Held bool
	Space         key.Space // of the source
	// Hurried is true if the object was deleted without waiting for its Pods.
	Hurried bool
	// Homeless is true if the item waits for its Namespace, which is desired and missing or may be. Untried is
	// true if it waits for the first turn of that.
	Homeless, Untried bool
	// Outdated is true if the turn did nothing since the desired entry has changed meanwhile.
	Outdated bool
	// Withheld is true if a change of the target waits until the worklist is open.
	Withheld bool
}
