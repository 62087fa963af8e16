package controllers

import (
	"sync"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// staleLocations caches objectstate.IsRowStale for the rows of Locations, with one entry per
// location. The zero value is ready for use, and safe for concurrent use.
type staleLocations struct {
	mu   sync.Mutex
	rows map[key.Location]staleRow
}

// staleRow is the result for a row at a revision.
type staleRow struct {
	rev   int64
	stale bool
}

// isStale returns objectstate.IsRowStale for the row of a Location in a state.
func (a *staleLocations) isStale(state table.Reader, l key.Location) bool {
	row := state.Get(l.Key())
	a.mu.Lock()
	defer a.mu.Unlock()
	if row == nil {
		delete(a.rows, l)
		return false
	}
	if known, ok := a.rows[l]; ok && known.rev == row.ModRev {
		return known.stale
	}
	if a.rows == nil {
		a.rows = map[key.Location]staleRow{}
	}
	a.rows[l] = staleRow{row.ModRev, objectstate.IsRowStale(row)}
	return a.rows[l].stale
}
