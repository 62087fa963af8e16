package worklist

import (
	"sync"
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// state is what the parts of a worklist share.
type state struct {
	mu   sync.Mutex
	wake sync.Cond
	// as is the owner in the marks of our objects.
	as ownership.Owner
	roster
	counters counters
	queue    queue
	// endings has, by identity, how Jobs and Pods at the target ran to their end.
	endings map[string]decide.Ending
	leaves  *leaves
	// homeless are the items that wait for a Namespace.
	homeless homeless
	may      permission
	open     openTime
	timer    *time.Timer
	// Worked, if not nil, is called with the time from the request of an item's turn to its end.
	// It must not block, nor call the worklist.
	Worked func(time.Duration)
	// News is raised when the kinds to observe, or the owner have changed, and when a kind is
	// to be listed again.
	News retry.Signal
}

func newState() *state {
	s := &state{
		roster: newRoster(), counters: counters{states: map[wire.State]int{}}, endings: map[string]decide.Ending{},
		may: permission{mode: Open}, open: newOpenTime(time.Now()), News: retry.NewSignal(),
	}
	s.wake.L = &s.mu
	s.leaves = newLeaves(func(it *Item) {
		s.queue.push(it)
		s.wake.Broadcast()
	})
	return s
}
