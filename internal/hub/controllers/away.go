package controllers

import (
	"sync"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// awayLocations remembers objectstate.RowAway of the rows of Locations. The zero value is ready to use, and safe for
// concurrent use. It has as many entries as there are locations.
type awayLocations struct {
	mu   sync.Mutex
	rows map[key.Location]awayRow
}

// awayRow is objectstate.RowAway of a row of a revision.
type awayRow struct {
	rev  int64
	away bool
}

// isAway is objectstate.RowAway of the row of a Location in a state.
func (a *awayLocations) isAway(state table.Reader, l key.Location) bool {
	row := state.Get(l.Key())
	a.mu.Lock()
	defer a.mu.Unlock()
	if row == nil {
		delete(a.rows, l)
		return false
	}
	if known, ok := a.rows[l]; ok && known.rev == row.ModRev {
		return known.away
	}
	if a.rows == nil {
		a.rows = map[key.Location]awayRow{}
	}
	a.rows[l] = awayRow{row.ModRev, objectstate.RowAway(row)}
	return a.rows[l].away
}
