package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// lookout looks at all that arrives at agents, for several that wait for something.
type lookout struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	wants map[*want]struct{}
}

// want is a set of expected arrivals: a number of them, each of another object or at another location.
type want struct {
	n    int
	is   func(arrival) bool
	have map[string]struct{}
	// all is closed when there are as many; at is when the last one arrived.
	all     chan struct{}
	arrived time.Time
}

// startLookout takes all arrivals until end is called.
func startLookout(ctx context.Context, arrivals <-chan arrival) *lookout {
	l := &lookout{wants: map[*want]struct{}{}}
	ctx, l.cancel = context.WithCancel(ctx)
	l.done.Go(func() {
		for {
			select {
			case a := <-arrivals:
				l.see(a)
			case <-ctx.Done():
				return
			}
		}
	})
	return l
}

func (l *lookout) end() {
	l.cancel()
	l.done.Wait()
}

func (l *lookout) see(a arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.wants {
		if !w.is(a) {
			continue
		}
		w.have[a.location+" "+a.put.Key] = struct{}{}
		if len(w.have) == w.n {
			w.arrived = a.arrived
			close(w.all)
			delete(l.wants, w)
		}
	}
}

// want looks for n arrivals from now on.
func (l *lookout) want(n int, is func(arrival) bool) *want {
	w := &want{n: n, is: is, have: map[string]struct{}{}, all: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants[w] = struct{}{}
	return w
}

// last waits until all have arrived, and returns when the last did.
func (l *lookout) last(ctx context.Context, w *want) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeLimit)
	defer cancel()
	select {
	case <-w.all:
		return w.arrived, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wants, w)
	return time.Time{}, fmt.Errorf("%d of %d have arrived: %w", len(w.have), w.n, context.Cause(ctx))
}

// probeEvery is the time between two edits that measure how long one takes.
const probeEvery = 25 * time.Millisecond

// probe makes one such edit, of the first object that one location alone gets, and returns
// how long it took until that has it. Consecutive ones are of other locations.
func (s *burstHub) probe(ctx context.Context) (time.Duration, error) {
	site, value := s.edited%s.probedSites(), editMark+strconv.Itoa(s.edited)
	s.edited++
	w := s.lookout.want(1, func(a arrival) bool {
		return a.location == simulatedName(site) && gjson.GetBytes(a.put.Object, "data.value").String() == value
	})
	start := time.Now()
	if err := s.whole.patch(ctx, s.ownObject(site), fmt.Sprintf(`{"data":{"value":%q}}`, value)); err != nil {
		return 0, err
	}
	arrived, err := s.lookout.last(ctx, w)
	return arrived.Sub(start), err
}

// probes makes n such edits and returns how many milliseconds each took.
func (s *burstHub) probes(n int) ([]float64, error) {
	return s.probeUntil(func(done int) bool { return done == n })
}

// keepProbing makes such edits until the returned function is called.
func (s *burstHub) keepProbing() (end func() ([]float64, error)) {
	ended := make(chan struct{})
	var all []float64
	var err error
	var probing sync.WaitGroup
	probing.Go(func() {
		all, err = s.probeUntil(func(done int) bool {
			select {
			case <-ended:
				return done > 0
			default:
				return false
			}
		})
	})
	return func() ([]float64, error) {
		close(ended)
		probing.Wait()
		return all, err
	}
}

func (s *burstHub) probeUntil(enough func(done int) bool) ([]float64, error) {
	var all []time.Duration
	for !enough(len(all)) {
		took, err := s.probe(s.ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
		if !wait(s.ctx, probeEvery-took) {
			return nil, context.Cause(s.ctx)
		}
	}
	return milliseconds(all), nil
}

// probedSites are the locations at which edits are probed: the last ones get the bursts.
func (s *burstHub) probedSites() int { return s.bench.size.sites - burstSites }
