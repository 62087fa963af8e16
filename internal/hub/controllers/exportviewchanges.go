package controllers

import (
	"context"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ChangedExportViews collects the APIExportViews whose slices may have changed. It is safe for
// concurrent use.
type ChangedExportViews struct {
	mu   sync.Mutex
	all  map[key.Shelf]struct{}
	wake chan struct{}
}

var _ table.Observer = (*ChangedExportViews)(nil)

// NewChangedExportViews returns an empty ChangedExportViews.
func NewChangedExportViews() *ChangedExportViews {
	return &ChangedExportViews{all: map[key.Shelf]struct{}{}, wake: make(chan struct{}, 1)}
}

// Reset implements table.Observer. After a reload, the other watches enqueue all views.
func (s *ChangedExportViews) Reset() {}

// Observe implements table.Observer.
func (s *ChangedExportViews) Observe(_ int64, changes []table.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		old, now := shownOf(c.Prev), shownOf(c.Cur)
		if old == now {
			continue
		}
		for _, exposure := range []table.Exposure{old, now} {
			if exposure != nil {
				s.add(exposure.ExportViews())
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

func (s *ChangedExportViews) add(all []key.Shelf) {
	for _, f := range all {
		if f.View {
			f.Value = ""
			s.all[f] = struct{}{}
		}
	}
}

func (s *ChangedExportViews) take() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.all {
		keys = append(keys, f.Key())
	}
	clear(s.all)
	return keys
}

// watch is the watch of the views. It pauses between batches.
func (s *ChangedExportViews) watch(ctx context.Context, enqueue func([]string)) error {
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
