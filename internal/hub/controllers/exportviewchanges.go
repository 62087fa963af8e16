package controllers

import (
	"context"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Shelves collects the APIExportViews whose slices may have other objects than before. It is
// safe for concurrent use.
type Shelves struct {
	mu   sync.Mutex
	all  map[key.Shelf]struct{}
	wake chan struct{}
}

var _ table.Observer = (*Shelves)(nil)

// NewShelves makes a Shelves of none.
func NewShelves() *Shelves {
	return &Shelves{all: map[key.Shelf]struct{}{}, wake: make(chan struct{}, 1)}
}

// Reset implements table.Observer. Who looks at the views then looks at all of them.
func (s *Shelves) Reset() {}

// Observe implements table.Observer.
func (s *Shelves) Observe(_ int64, changes []table.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		was, now := shownOf(c.Prev), shownOf(c.Cur)
		if was == now {
			continue
		}
		for _, on := range []table.Exposure{was, now} {
			if on != nil {
				s.note(on.ExportViews())
			}
		}
	}
	if len(s.all) > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func shownOf(row *table.Row) table.Exposure {
	if row == nil {
		return nil
	}
	return row.Exposure
}

func (s *Shelves) note(all []key.Shelf) {
	for _, f := range all {
		if f.View {
			f.Value = ""
			s.all[f] = struct{}{}
		}
	}
}

func (s *Shelves) take() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.all {
		keys = append(keys, f.Key())
	}
	clear(s.all)
	return keys
}

// watch is the watch of the views. It rests between looks.
func (s *Shelves) watch(ctx context.Context, enqueue func([]string)) error {
	const rest = 50 * time.Millisecond
	for {
		select {
		case <-s.wake:
			enqueue(s.take())
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
