package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// connecting bounds how many agents connect at once.
const connecting = 16

// fleet is the simulated agents of a run. Its methods are for one goroutine.
type fleet struct {
	b      *bench
	agents []*simulated
	// arrivals receives every put that an agent gets.
	arrivals chan arrival
	ctx      context.Context
	fail     context.CancelCauseFunc
	running  sync.WaitGroup
	answers  *answers
}

// arrival is one put at one agent.
type arrival struct {
	location string
	put      *wire.Put
	arrived  time.Time
}

// answers counts the report keys that each revision of the hub's log took in.
type answers struct {
	mu   sync.Mutex
	keys map[int64]int
}

func (a *answers) add(revision int64, keys int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys[revision] += keys
}

// take returns how many keys and revisions there were since the last call.
func (a *answers) take() (keys, revisions int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.keys {
		keys += n
	}
	revisions = len(a.keys)
	clear(a.keys)
	return keys, revisions
}

func newFleet(b *bench) *fleet {
	f := &fleet{b: b, arrivals: make(chan arrival, 1<<16), answers: &answers{keys: map[int64]int{}}}
	f.ctx, f.fail = context.WithCancelCause(b.ctx)
	b.t.Cleanup(func() {
		f.fail(errors.New("the run is over"))
		f.running.Wait()
	})
	return f
}

func simulatedName(i int) string { return fmt.Sprintf("sim-%04d", i) }

// names are those of the first n locations.
func (f *fleet) names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = simulatedName(i)
	}
	return all
}

// grow makes locations, and connects an agent for each, until there are n.
func (f *fleet) grow(n int) error {
	have := len(f.agents)
	if have >= n {
		return nil
	}
	f.agents = append(f.agents, make([]*simulated, n-have)...)
	group, ctx := errgroup.WithContext(f.b.ctx)
	group.SetLimit(connecting)
	for i := have; i < n; i++ {
		group.Go(func() error {
			join, err := addLocation(ctx, f.b.root, simulatedName(i))
			if err != nil {
				return err
			}
			client, err := protocol.NewClient(join)
			if err != nil {
				return err
			}
			agent := newSimulated(client, f.arrivals, f.answers)
			f.agents[i] = agent
			connected := make(chan struct{})
			f.running.Go(func() {
				if err := agent.run(f.ctx, connected); f.ctx.Err() == nil {
					f.fail(fmt.Errorf("simulated agent %q: %w", join.Location, err))
				}
			})
			select {
			case <-connected:
				return nil
			case <-f.ctx.Done():
				return context.Cause(f.ctx)
			}
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("connect %d simulated agents: %w", n, err)
	}
	return f.b.calmDown()
}

// drain drops what arrives until the returned function is called.
func (f *fleet) drain() (stop func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	var draining sync.WaitGroup
	draining.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-f.arrivals:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		draining.Wait()
	}
}

// wave waits until n agents have got what is looks for, and returns when the last
// one had it. What arrives for others is dropped.
func (f *fleet) wave(n int, is func(arrival) bool) (time.Time, error) {
	return f.waveWithin(timeLimit, n, is)
}

func (f *fleet) waveWithin(limit time.Duration, n int, is func(arrival) bool) (time.Time, error) {
	have := map[string]struct{}{}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case a := <-f.arrivals:
			if !is(a) {
				continue
			}
			have[a.location] = struct{}{}
			if len(have) == n {
				return a.arrived, nil
			}
		case <-timeout.C:
			return time.Time{}, fmt.Errorf("%d of %d agents have it after %s", len(have), n, limit)
		case <-f.ctx.Done():
			return time.Time{}, context.Cause(f.ctx)
		}
	}
}
