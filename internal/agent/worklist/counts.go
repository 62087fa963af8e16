package worklist

import (
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// counters count items by their reported state and their proof. The lock of the worklist guards them.
type counters struct {
	states map[wire.State]int
	proofs [ownership.Proofs]int // by the proof that their objects are of the hub's log
}

// report records the reported state of an item; empty: none.
func (t *counters) report(it *Item, s wire.State) {
	if !it.state.empty() {
		t.states[it.state.value()]--
	}
	if s != "" {
		t.states[s]++
	}
	it.state = shorten(s)
}

// prove records the proof of an item's object.
func (t *counters) prove(it *Item, p ownership.Proof) {
	t.proofs[it.proof]--
	t.proofs[p]++
	it.proof = p
}

// Counts are numbers of items.
type Counts struct {
	Items, Queued, running int
	States                 map[wire.State]int
	// unasked and Missing are those that wait for a proof of the log: the hub was not asked for it
	// yet, or does not give it.
	unasked, Missing int
	// unlisted is true if a kind is yet to be listed.
	unlisted bool
}

// IsIdle reports whether no item is queued or has a worker.
func (c Counts) IsIdle() bool { return c.Queued == 0 && c.running == 0 }

// Listed reports whether each kind was listed once, or can't be.
func (c Counts) Listed() bool { return !c.unlisted }

// IsComplete reports whether each item was observed, as far as it can be, had its turn, and waits
// for no proof.
func (c Counts) IsComplete() bool {
	return c.IsIdle() && !c.unlisted && c.unasked == 0 && c.Missing == 0
}
