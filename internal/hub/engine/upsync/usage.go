// Package upsync decides about reports of objects that were not placed: upsynced objects, which the
// upsync entries of a space select, and associated objects, which belong to a placed object. It
// decides whether a policy requests a report and whether the report is valid, and it counts
// reports.
//
// Whether a report is requested is a function of the state alone. The package must never write, and
// has no goroutine and no clock.
package upsync

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Used is the number and the total size of a location's reports of one origin.
type Used struct {
	Objects, Bytes int64
}

// Usage counts the reports of objects that were not placed. It is a table.Observer and safe for
// concurrent use.
type Usage struct {
	mu sync.Mutex
	// byLocation holds the counts by location, then origin and space.
	byLocation map[key.Location]map[spaceOrigin]Used
}

// spaceOrigin identifies the reports of one origin for a space.
type spaceOrigin struct {
	origin key.Origin
	space  key.Space
}

var _ table.Observer = (*Usage)(nil)

// NewUsage returns an empty Usage.
func NewUsage() *Usage { return &Usage{byLocation: map[key.Location]map[spaceOrigin]Used{}} }

// Reset implements table.Observer.
func (u *Usage) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.byLocation = map[key.Location]map[spaceOrigin]Used{}
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
	counts, p := u.byLocation[r.Location], spaceOrigin{r.Origin, r.Space}
	if counts == nil {
		counts = map[spaceOrigin]Used{}
		u.byLocation[r.Location] = counts
	}
	now := Used{counts[p].Objects + d.Objects, counts[p].Bytes + d.Bytes}
	if counts[p] = now; now == (Used{}) {
		if delete(counts, p); len(counts) == 0 {
			delete(u.byLocation, r.Location)
		}
	}
}

// Total returns the usage of a location for an origin, for all spaces.
func (u *Usage) Total(l key.Location, origin key.Origin) (all Used) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, used := range u.byLocation[l] {
		if p.origin == origin {
			all.Objects, all.Bytes = all.Objects+used.Objects, all.Bytes+used.Bytes
		}
	}
	return all
}

// Contains reports whether a location has reports of an origin for a space.
func (u *Usage) Contains(l key.Location, s key.Space, origin key.Origin) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byLocation[l][spaceOrigin{origin, s}].Objects > 0
}

// Prefixes returns the key prefixes of all reports of a location about objects that were not placed
// there, in order.
func (u *Usage) Prefixes(l key.Location) (all []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := range u.byLocation[l] {
		all = append(all, key.OriginReports(l, p.space, p.origin))
	}
	slices.SortFunc(all, cmp.Compare)
	return all
}
