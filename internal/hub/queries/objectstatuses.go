package queries

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// objectStatuses computes the statuses of the objects of a space, each with its locations: those that it is
// assigned to, and those that still have it. A reader only gets objects that its filter selects. It is safe
// for concurrent use.
type objectStatuses struct {
	digest   objectstate.Digest
	progress *progress.Tracker
	leftOut  *unreturned.Index
}

// page returns the selected objects of a page in order of keys: first placed objects,
// then objects that are no longer assigned but still exist at locations. It sets next to the token
// of the next page, if there is one. It ends with the context.
func (a *objectStatuses) page(ctx context.Context, state *table.Snapshot, s key.Space, f statusFilter, p page, next *string) iter.Seq[ObjectStatus] {
	stale := staleIn(state)
	paths, remaining := a.left(ctx, state, s, f, stale)
	n := 0
	return func(yield func(ObjectStatus) bool) {
		// show yields an object. If the page is full, the next page begins with it instead.
		show := func(isLeft bool, position string, status ObjectStatus) bool {
			if p.limit > 0 && n == p.limit {
				*next = token(isLeft, position)
				return false
			}
			n++
			return yield(status)
		}
		more := p.left || a.eachPlaced(ctx, state, s, f, p.from, func(row *table.Row, o key.Object) bool {
			status := a.status(ctx, state, o, row, f, stale, remaining[o.Path()])
			return status == nil || show(false, row.Key, *status)
		})
		for _, path := range paths {
			more = more && ctx.Err() == nil
			o, err := key.ParsePath(path)
			if places := remaining[path]; more && err == nil && places != nil && (!p.left || path >= p.from) && !a.isPlaced(ctx, state, o, f, stale) {
				more = show(true, path, ObjectStatus{Object: o.Identity.String(), Places: places})
			}
		}
	}
}

// eachPlaced calls fn for the selected rows of a space's objects, from a key on, until fn
// returns false, or the context ends. It then returns false, too.
func (a *objectStatuses) eachPlaced(ctx context.Context, state *table.Snapshot, s key.Space, f statusFilter, from string, fn func(*table.Row, key.Object) bool) bool {
	more, prefix := true, key.SpacePrefix(s)+f.object
	state.AscendFrom(max(from, prefix), func(row *table.Row) bool {
		if !strings.HasPrefix(row.Key, prefix) {
			return false
		}
		if o, err := key.ParseObject(row.Key); err == nil && f.wants(o.Identity) {
			more = fn(row, o)
		}
		more = more && ctx.Err() == nil
		return more
	})
	return more
}

// isPlaced reports whether an object is listed among placed objects.
func (a *objectStatuses) isPlaced(ctx context.Context, state table.Reader, o key.Object, f statusFilter, stale func(key.Location) bool) bool {
	row := state.Get(o.Key())
	if row == nil {
		return false
	}
	m, _ := row.In.(*placement.Membership)
	return m != nil || len(a.places(ctx, state, o, row, f, stale)) > 0
}

// status returns the status of an object of a space, with locations that it is no longer
// assigned to; nil if no row is selected.
func (a *objectStatuses) status(ctx context.Context, state table.Reader, o key.Object, row *table.Row, f statusFilter, stale func(key.Location) bool, left []PlaceStatus) *ObjectStatus {
	status := ObjectStatus{Object: o.Identity.String(), Generation: row.Meta.Generation, Places: a.places(ctx, state, o, row, f, stale)}
	if m, _ := row.In.(*placement.Membership); m == nil && len(status.Places) == 0 {
		return nil // its remaining locations are listed separately
	}
	status.Places = append(status.Places, left...)
	if len(status.Places) == 0 && !f.all() {
		return nil
	}
	return &status
}

// places returns the selected locations that an object is assigned to, including those that refuse
// it, until the context ends.
func (a *objectStatuses) places(ctx context.Context, state table.Reader, o key.Object, row *table.Row, f statusFilter, stale func(key.Location) bool) (all []PlaceStatus) {
	add := func(ps PlaceStatus) {
		if f.shows(&ps) {
			all = append(all, ps)
		}
	}
	if m, ok := row.In.(*placement.Membership); ok && !m.Leaves() { // otherwise it is listed with the remaining locations
		for _, p := range m.Places() {
			if ctx.Err() != nil {
				return all
			}
			if f.placed(m, p.Location) {
				add(a.placeStatus(state, o, row, p, stale(p.Location)))
			}
		}
		for _, l := range m.Refused() {
			if f.placed(m, l) {
				add(placeStatusOf(l, objectstate.Refused(m.Refusal(l))))
			}
		}
	}
	if f.placement == "" { // no Placement is selected
		unknown := placement.UnknownLocations(state, o, row)
		for _, l := range slices.Sorted(maps.Keys(unknown)) {
			add(placeStatusOf(l, objectstate.UnknownLocation(unknown[l])))
		}
	}
	return all
}

// left returns, by path, the statuses of objects that locations report although they are
// not assigned there, until the context ends.
func (a *objectStatuses) left(ctx context.Context, state table.Reader, s key.Space, f statusFilter, stale func(key.Location) bool) (paths []string, all map[string][]PlaceStatus) {
	all = map[string][]PlaceStatus{}
	named := f.lists(key.Identity{Resource: key.Placements})
	remaining, err := a.progress.Unassigned(ctx, key.PathPrefix(s)+f.object)
	if err != nil {
		return nil, nil
	}
	for _, l := range remaining {
		if ctx.Err() != nil {
			break
		}
		o, err := key.ParsePath(l.Path)
		if err != nil || !f.wants(o.Identity) {
			continue
		}
		ps, ok := leftStatus(state, o, l.Location, stale(l.Location))
		if !ok || !f.shows(&ps) || f.placement != "" && ps.LetGoBy != f.placement {
			continue
		}
		if !named && f.placement == "" {
			ps.LetGoBy = ""
		}
		if all[l.Path] == nil {
			paths = append(paths, l.Path)
		}
		all[l.Path] = append(all[l.Path], ps)
	}
	return paths, all
}

// leftCounts counts the objects of a space that locations report although they are not assigned there,
// if the reader may list them, until the context ends.
func (a *objectStatuses) leftCounts(ctx context.Context, state table.Reader, s key.Space, f statusFilter) (n v1alpha1.LeftCounts) {
	remaining, err := a.progress.Unassigned(ctx, key.PathPrefix(s))
	if err != nil {
		return n
	}
	for _, l := range remaining {
		if ctx.Err() != nil {
			break
		}
		o, err := key.ParsePath(l.Path)
		if err != nil || !f.lists(o.Identity) {
			continue
		}
		switch ps, left := leftStatus(state, o, l.Location, false); {
		case !left:
		case objectstate.Left(reportOf(state, o, l.Location), false).Stays():
			n.Leftovers++
		case ps.State != "":
			n.Leaving++
		}
	}
	return n
}

// placeStatus returns the status of an object at one of its locations.
func (a *objectStatuses) placeStatus(state table.Reader, o key.Object, row *table.Row, p placement.Place, stale bool) PlaceStatus {
	ps := placeStatusOf(p.Location, objectstate.Assigned(a.digest, row, p, reportOf(state, o, p.Location), stale))
	if u, ok := a.leftOut.Get(row.Key); ok && (u.Location == p.Location || u.Location == "" && p.Policy.ReturnStatus) {
		ps.StatusLeftOut = u.Why
	}
	return ps
}
