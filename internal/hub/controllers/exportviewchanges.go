package controllers

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ChangedExportViews collects the APIExportViews whose slices may have changed. It is safe for
// concurrent use.
type ChangedExportViews struct{ views *keySet[key.ExportView] }

var _ table.Observer = (*ChangedExportViews)(nil)

// NewChangedExportViews returns an empty ChangedExportViews.
func NewChangedExportViews() *ChangedExportViews {
	return &ChangedExportViews{newKeySet[key.ExportView]()}
}

// Reset implements table.Observer. After a reload, the other watches enqueue all views.
func (s *ChangedExportViews) Reset() {}

// Observe implements table.Observer.
func (s *ChangedExportViews) Observe(_ int64, changes []table.Change) {
	var changed []key.ExportView
	for _, c := range changes {
		old, now := exposureOf(c.Prev), exposureOf(c.Cur)
		if old == now {
			continue
		}
		for _, exposure := range []table.Exposure{old, now} {
			if exposure != nil {
				changed = appendViews(changed, exposure.ExportViews())
			}
		}
	}
	if len(changed) > 0 {
		s.views.add(changed)
	}
}

func exposureOf(row *table.Row) table.Exposure {
	if row == nil {
		return nil
	}
	return row.Exposure
}

// appendViews appends the APIExportViews of some slices.
func appendViews(views, slices []key.ExportView) []key.ExportView {
	for _, f := range slices {
		if f.View {
			f.Value = ""
			views = append(views, f)
		}
	}
	return views
}

// watch returns the watch of the views. It collects from now on, see takeAll, and pauses between batches. The controller
// needs a second watch that enqueues all views at its start.
func (s *ChangedExportViews) watch() watch {
	const rest = 50 * time.Millisecond
	s.views.open()
	return func(ctx context.Context, enqueue func([]string)) error {
		defer s.views.close()
		for {
			select {
			case <-s.views.added:
			case <-ctx.Done():
				return ctx.Err()
			}
			var keys []string
			for _, f := range s.views.take() {
				keys = append(keys, f.Key())
			}
			enqueue(keys)
			select {
			case <-time.After(rest):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
