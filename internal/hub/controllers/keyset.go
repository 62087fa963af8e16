package controllers

import (
	"context"
	"maps"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/lib/retry"
)

// keySet collects keys, each once, while a watch takes them. Without a watch it keeps none: at a hub that is not
// elected, keys of objects that are long gone would add up. It is safe for concurrent use.
type keySet[K comparable] struct {
	mu  sync.Mutex
	all map[K]struct{}
	// isOpen is true while a watch takes keys.
	isOpen bool
	// isMissed is true if keys were added while no watch took them, or were taken by a watch that may have ended
	// before they were reconciled.
	isMissed bool
	// added is raised by each call of add.
	added retry.Signal
}

func newKeySet[K comparable]() *keySet[K] {
	return &keySet[K]{added: retry.NewSignal()}
}

// open begins to collect keys, until close. It reports whether there were keys before that may not have been
// reconciled. There may be one watch at a time.
func (s *keySet[K]) open() (isMissed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isMissed, s.isMissed = s.isMissed, false
	s.isOpen, s.all = true, map[K]struct{}{}
	return isMissed
}

func (s *keySet[K]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isMissed = s.isMissed || len(s.all) > 0
	s.isOpen, s.all = false, nil
}

func (s *keySet[K]) add(keys []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOpen {
		s.isMissed = s.isMissed || len(keys) > 0
		return
	}
	for _, k := range keys {
		s.all[k] = struct{}{}
	}
	s.added.Raise()
}

func (s *keySet[K]) take() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Collect(maps.Keys(s.all))
	s.isMissed = s.isMissed || len(keys) > 0
	clear(s.all)
	return keys
}

// takeAll opens a set, and returns a watch that enqueues its keys as they are added. The set is open before the watch
// runs, because the other watches of the controller run concurrently, and cause keys. The controller needs a second watch
// that enqueues all keys at its start.
func takeAll(s *keySet[string]) watch {
	s.open()
	return func(ctx context.Context, enqueue func([]string)) error {
		defer s.close()
		for {
			select {
			case <-s.added:
				enqueue(s.take())
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
