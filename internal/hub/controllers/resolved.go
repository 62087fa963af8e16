package controllers

import (
	"slices"
	"sync"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// resolutions are what Placements select, as it was found out last, so that a status whose counts
// have changed does not look at all locations: each of thousands that have one of their own would.
// They are forgotten when locations move that concern them. It is safe for concurrent use.
type resolutions struct {
	mu sync.Mutex
	// epoch counts when something was forgotten: what was found out by a state of before is not
	// kept after that.
	epoch uint64
	of    map[key.Placement]resolution
}

// resolution is what one Placement selects, without the names of its locations, of which there may
// be thousands for each of thousands.
type resolution struct {
	placement.Status
	locations int
	premise   premise
}

// premise is what a resolution follows from besides locations; nothing else than these if the
// Placement reaches no other space.
type premise struct {
	uid, spaceUID  string
	generation     int64
	labels, spaced table.Labels
}

func premiseOf(state table.Reader, row *table.Row, in key.Space) premise {
	p := premise{uid: row.Meta.UID, generation: row.Meta.Generation, labels: row.Meta.Labels}
	if s := state.Get(in.Key()); s != nil {
		p.spaceUID, p.spaced = s.Meta.UID, s.Meta.Labels
	}
	return p
}

func (p premise) equal(o premise) bool {
	return p.uid == o.uid && p.spaceUID == o.spaceUID && p.generation == o.generation && slices.Equal(p.labels, o.labels) && slices.Equal(p.spaced, o.spaced)
}

func newResolutions() *resolutions { return &resolutions{of: map[key.Placement]resolution{}} }

// get is what a Placement selects in the newest state of a table, and its row there; nil if it is
// gone or being deleted.
func (r *resolutions) get(t *table.Table, p key.Placement) (is resolution, row *table.Row) {
	r.mu.Lock()
	epoch := r.epoch
	is, known := r.of[p]
	r.mu.Unlock()
	state := t.Snapshot()
	row = state.Get(p.Object().Key())
	if row == nil || row.Meta.Deleting {
		return resolution{}, nil
	}
	premise := premiseOf(state, row, p.Space)
	if known && is.premise.equal(premise) {
		return is, row
	}
	status, ok := placement.StatusOf(state, p)
	if !ok {
		return resolution{}, nil
	}
	is = resolution{Status: status, locations: len(status.Locations), premise: premise}
	is.Locations = nil
	if !is.Reaches {
		r.keep(epoch, p, is)
	}
	return is, row
}

// keep keeps what was found out in an epoch, if that is still the one.
func (r *resolutions) keep(epoch uint64, p key.Placement, is resolution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch == epoch {
		r.of[p] = is
	}
}

// forget forgets those that locations which have moved may concern, and those of Placements that are
// gone, and returns the keys of the former, but for those that are dirty anyway.
func (r *resolutions) forget(state *table.Snapshot, dirty progress.Dirty) (concerned []string) {
	var all []key.Placement
	for _, p := range dirty.Placements {
		if len(dirty.Moved) > 0 || state.Get(p.Object().Key()) == nil {
			all = append(all, p)
		}
	}
	if len(dirty.Moved) > 0 {
		inAllSpaces(key.Placements)(state, func(row *table.Row) bool {
			o, err := key.ParseObject(row.Key)
			if err != nil {
				return true
			}
			p := key.Placement{Space: o.Space, Name: o.Name}
			if _, is := slices.BinarySearchFunc(dirty.Placements, p, key.Placement.Compare); !is && placement.Concerned(p, row, dirty.Moved) {
				all, concerned = append(all, p), append(concerned, row.Key)
			}
			return true
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(dirty.Moved)+len(all) > 0 {
		r.epoch++
	}
	for _, p := range all {
		delete(r.of, p)
	}
	return concerned
}
