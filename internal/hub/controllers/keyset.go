package controllers

import (
	"context"
	"maps"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/lib/retry"
)

// keySet collects keys, each once, until a watch takes them. It is safe for concurrent use.
type keySet[K comparable] struct {
	mu  sync.Mutex
	all map[K]struct{}
	// added is raised by each call of add.
	added retry.Signal
}

func newKeySet[K comparable]() *keySet[K] {
	return &keySet[K]{all: map[K]struct{}{}, added: retry.NewSignal()}
}

func (s *keySet[K]) add(keys []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.all[k] = struct{}{}
	}
	s.added.Raise()
}

func (s *keySet[K]) take() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Collect(maps.Keys(s.all))
	clear(s.all)
	return keys
}

// takeAll returns a watch that enqueues the keys of a set as they are added.
func takeAll(s *keySet[string]) watch {
	return func(ctx context.Context, enqueue func([]string)) error {
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
