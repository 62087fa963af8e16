package controllers

import (
	"slices"
	"sync"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// resolutions caches what Placements select. A status with changed counts then needs no search of
// all locations, which would be expensive with thousands of Placements. Entries are dropped when
// locations change that may affect them. It is safe for concurrent use.
type resolutions struct {
	mu sync.Mutex
	// epoch counts invalidations. A result from a state before an invalidation is not stored after
	// it.
	epoch       uint64
	byPlacement map[key.Placement]resolution
}

// resolution is what one Placement selects, without the names of locations, since there may be
// thousands of names for each of thousands of Placements.
type resolution struct {
	placement.Status
	locations int
	inputs    resolutionInputs
}

// resolutionInputs are the inputs of a resolution besides locations. For a Placement that selects
// other spaces, there are more.
type resolutionInputs struct {
	uid, spaceUID  string
	generation     int64
	labels, spaced table.Labels
}

func resolutionInputsOf(state table.Reader, row *table.Row, in key.Space) resolutionInputs {
	p := resolutionInputs{uid: row.Meta.UID, generation: row.Meta.Generation, labels: row.Meta.Labels}
	if s := state.Get(in.Key()); s != nil {
		p.spaceUID, p.spaced = s.Meta.UID, s.Meta.Labels
	}
	return p
}

func (p resolutionInputs) equal(o resolutionInputs) bool {
	return p.uid == o.uid && p.spaceUID == o.spaceUID && p.generation == o.generation && slices.Equal(p.labels, o.labels) && slices.Equal(p.spaced, o.spaced)
}

func newResolutions() *resolutions { return &resolutions{byPlacement: map[key.Placement]resolution{}} }

// get returns what a Placement selects in the newest state of a table, and its row; nil if it does
// not exist or is being deleted.
func (r *resolutions) get(t *table.Table, p key.Placement) (is resolution, row *table.Row) {
	r.mu.Lock()
	epoch := r.epoch
	is, known := r.byPlacement[p]
	r.mu.Unlock()
	state := t.Snapshot()
	row = state.Get(p.Object().Key())
	if row == nil || row.Meta.Deleting {
		return resolution{}, nil
	}
	inputs := resolutionInputsOf(state, row, p.Space)
	if known && is.inputs.equal(inputs) {
		return is, row
	}
	status, ok := placement.StatusOf(state, p)
	if !ok {
		return resolution{}, nil
	}
	is = resolution{Status: status, locations: len(status.Locations), inputs: inputs}
	is.Locations = nil
	if !is.Reaches {
		r.keep(epoch, p, is)
	}
	return is, row
}

// keep stores a resolution that was computed in an epoch, if the epoch is still current.
func (r *resolutions) keep(epoch uint64, p key.Placement, is resolution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch == epoch {
		r.byPlacement[p] = is
	}
}

// forget drops the entries that changed locations may affect, and those of deleted Placements. It
// returns the keys of the former, except those that are dirty anyway.
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
		delete(r.byPlacement, p)
	}
	return concerned
}
