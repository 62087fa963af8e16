package worklist

import (
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// tally counts items by what is said of them. It is guarded by the engine's lock.
type tally struct {
	states map[wire.State]int
	proofs [ownership.Proofs]int // by the proof of lineage of their objects
}

// report notes what is reported of an item; empty: nothing is.
func (t *tally) report(it *Item, s wire.State) {
	if !it.state.empty() {
		t.states[it.state.value()]--
	}
	if s != "" {
		t.states[s]++
	}
	it.state = shorten(s)
}

// prove notes what is known of an item's object.
func (t *tally) prove(it *Item, p ownership.Proof) {
	t.proofs[it.proof]--
	t.proofs[p]++
	it.proof = p
}

// Counts says how many items there are, and of what.
type Counts struct {
	Items, Queued, running int
	States                 map[wire.State]int
	// unasked and Missing are those that wait for a proof of lineage: about which the hub
	// has not been asked yet, and which it does not give.
	unasked, Missing int
	// unlisted says that a kind is yet to be listed.
	unlisted bool
}

// Calm says that nothing is to be done now.
func (c Counts) Calm() bool { return c.Queued == 0 && c.running == 0 }

// Listed reports whether each kind was listed once, or can't be.
func (c Counts) Listed() bool { return !c.unlisted }

// Judged says that all that concerns the agent has been seen, as far as it can be,
// had its turn, and waits for no proof.
func (c Counts) Judged() bool { return c.Calm() && !c.unlisted && c.unasked == 0 && c.Missing == 0 }

// Count counts the items as they are now.
func (e *Worklist) Count() Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := Counts{
		Items: len(e.items), Queued: e.queue.count, States: map[wire.State]int{},
		unasked: e.tally.proofs[ownership.Unasked], Missing: e.tally.proofs[ownership.Missing],
	}
	for state, n := range e.tally.states {
		if n > 0 {
			c.States[state] = n
		}
	}
	for _, k := range e.kinds {
		c.running += k.running
		c.unlisted = c.unlisted || k.version != "" && k.sight == decide.Unseen
	}
	return c
}
