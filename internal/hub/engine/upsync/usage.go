// Package upsync says of what was not placed at a location whether its reports are wanted: of
// objects that are born there, since a space asks for them, and of those that belong to a
// placed object, since its Placements ask for them; what such a report must be; and how many
// there are.
//
// What is wanted is a function of the state alone. The package must never write, and has no
// goroutine and no clock.
package upsync

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Used is how many reports of one origin a location has, and how large they are together.
type Used struct {
	Objects, Bytes int64
}

// Usage counts the reports of what was not placed. It is safe for concurrent use, and a
// table.Observer.
type Usage struct {
	mu sync.Mutex
	// by has them by location, and there by origin and space.
	by map[key.Location]map[part]Used
}

// part are the reports of one origin that a location has for a space.
type part struct {
	origin key.Origin
	space  key.Space
}

var _ table.Observer = (*Usage)(nil)

// NewUsage makes a Usage that has observed nothing.
func NewUsage() *Usage { return &Usage{by: map[key.Location]map[part]Used{}} }

// Reset implements table.Observer.
func (u *Usage) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.by = map[key.Location]map[part]Used{}
}

// Observe implements table.Observer.
func (u *Usage) Observe(_ int64, changes []table.Change) {
	for _, ch := range changes {
		k := ch.Row().Key
		if !strings.HasPrefix(k, key.Reports.Prefix()) {
			continue
		}
		r, err := key.ParseReport(k)
		if err != nil || r.Origin == key.Placed {
			continue
		}
		var d Used
		if ch.Prev != nil {
			d = Used{-1, -int64(len(ch.Prev.Value))}
		}
		if ch.Cur != nil {
			d.Objects, d.Bytes = d.Objects+1, d.Bytes+int64(len(ch.Cur.Value))
		}
		u.add(r, d)
	}
}

func (u *Usage) add(r key.Report, d Used) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, p := u.by[r.Location], part{r.Origin, r.Space}
	if at == nil {
		at = map[part]Used{}
		u.by[r.Location] = at
	}
	now := Used{at[p].Objects + d.Objects, at[p].Bytes + d.Bytes}
	if at[p] = now; now == (Used{}) {
		if delete(at, p); len(at) == 0 {
			delete(u.by, r.Location)
		}
	}
}

// Of is what a location has of an origin, for all spaces.
func (u *Usage) Of(l key.Location, origin key.Origin) (all Used) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, used := range u.by[l] {
		if p.origin == origin {
			all.Objects, all.Bytes = all.Objects+used.Objects, all.Bytes+used.Bytes
		}
	}
	return all
}

// Has says whether a location has reports of an origin for a space.
func (u *Usage) Has(l key.Location, s key.Space, origin key.Origin) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.by[l][part{origin, s}].Objects > 0
}

// Prefixes are the prefixes of the keys of all reports that a location has of what was not
// placed there, in order.
func (u *Usage) Prefixes(l key.Location) (all []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := range u.by[l] {
		all = append(all, key.OriginReports(l, p.space, p.origin))
	}
	slices.SortFunc(all, cmp.Compare)
	return all
}
