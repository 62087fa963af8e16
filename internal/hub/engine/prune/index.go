// Package prune adds up the removals that wait for a confirmation, over all locations, by
// the Placement that no longer assigns the objects, and keeps what owners of Placements
// confirm until it is done.
//
// It is a function of the rows of Locations, in which agents say what waits, and of
// Placements, so what is confirmed survives a restart. What it confirms to an agent is
// always what waited at the location at the time of the confirmation, by the location's
// own digest. It must never write, and has no goroutine and no clock.
package prune

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// group are removals of a space's objects that a Placement no longer assigns; without one,
// those of which no Placement is known.
type group struct {
	space key.Space
	of    key.PlacementRef
}

// placement is the Placement of the group.
func (g group) placement() key.Placement { return g.of.Of(g.space) }

// reached says that it is one of root that reaches the space.
func (g group) reached() bool { return g.placement().Space != g.space }

// part is what waits at one location of one group.
type part struct {
	pending int64
	digest  string
}

// spot is where objects of a space are.
type spot struct {
	space    key.Space
	location key.Location
}

// parts are those of one group, or of all groups of a Placement of root.
type parts map[spot]part

// let is a confirmation for an agent, and whether it was given in root for another space:
// then it is only about what Placements of root no longer assign.
type let struct {
	wire.Confirmation
	byRoot bool
}

// place is what waits at one location.
type place struct {
	of map[group]part
	// spaces are those of which something waits, whose owners may confirm it.
	spaces map[key.Space]struct{}
}

// owner is what a Placement says of removals.
type owner struct {
	// digest is the one in its annotation.
	digest string
	// confirmed is the list in its status; raw is the same as JSON.
	confirmed []v1alpha1.ConfirmedPrune
	raw       string
}

// Index is safe for concurrent use. It is a table.Observer.
type Index struct {
	// changed is called, without the lock, for each location whose Confirmations may have
	// changed with the row of a Placement.
	changed func(key.Location)

	mu     sync.RWMutex
	places map[key.Location]place
	groups map[key.Space]map[key.PlacementRef]parts
	owners map[key.Space]map[string]owner
	// let counts, by location and confirmation, the Placements whose status has it.
	let   map[key.Location]map[let]int
	dirty map[key.Placement]struct{}
}

var _ table.Observer = (*Index)(nil)

// New makes an Index that has observed nothing. changed must be quick.
func New(changed func(key.Location)) *Index {
	x := &Index{changed: changed, dirty: map[key.Placement]struct{}{}}
	x.Reset()
	return x
}

// Reset forgets everything.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places = map[key.Location]place{}
	x.groups = map[key.Space]map[key.PlacementRef]parts{}
	x.owners = map[key.Space]map[string]owner{}
	x.let = map[key.Location]map[let]int{}
}

// Observe notes what Locations and Placements say in a revision.
func (x *Index) Observe(_ int64, changes []table.Change) {
	locations := key.ResourcePrefix(key.Root, key.Locations)
	moved := map[key.Location]struct{}{}
	for _, ch := range changes {
		k := ch.Row().Key
		if name, ok := strings.CutPrefix(k, locations); ok {
			x.noteLocation(key.Location(name), ch.Cur)
		} else if strings.Contains(k, "/placements/") { // which costs less than taking the key apart
			if o, err := key.ParseObject(k); err == nil && o.Resource == key.Placements {
				x.notePlacement(key.Placement{Space: o.Space, Name: o.Name}, ch.Cur, moved)
			}
		}
	}
	for l := range moved {
		x.changed(l)
	}
}

func (x *Index) noteLocation(l key.Location, row *table.Row) {
	now := placeOf(row)
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.places[l]
	for g := range was.of {
		if _, stays := now.of[g]; !stays {
			x.setPart(g, l, part{})
		}
	}
	for g, one := range now.of {
		if was.of[g] != one {
			x.setPart(g, l, one)
		}
	}
	if x.places[l] = now; len(now.of)+len(now.spaces) == 0 {
		delete(x.places, l)
	}
}

// placeOf reads what waits at a location from its row: nothing if the location is gone or
// being deleted.
func placeOf(row *table.Row) place {
	p := place{of: map[group]part{}, spaces: map[key.Space]struct{}{}}
	if row == nil || row.Meta.Deleting {
		return p
	}
	raw := gjson.GetBytes(row.Value, "status.agent.prune").Raw
	if raw == "" {
		return p
	}
	var prune v1alpha1.PendingPrune
	if json.Unmarshal([]byte(raw), &prune) != nil { // nothing that the hub has written
		return p
	}
	for _, one := range prune.Spaces {
		p.spaces[key.Space(one.Space)] = struct{}{}
	}
	for _, one := range prune.Placements {
		if one.Pending > 0 && one.Digest != "" {
			p.spaces[key.Space(one.Space)] = struct{}{}
			p.of[group{key.Space(one.Space), key.PlacementRef(one.Placement)}] = part{one.Pending, one.Digest}
		}
	}
	return p
}

// setPart sets what waits of a group at a location. That may change the status of its
// Placement, and those of Placements that have confirmed something, of the same space, and of
// root if it is one of root's.
func (x *Index) setPart(g group, l key.Location, one part) {
	space := x.groups[g.space]
	if space == nil {
		space = map[key.PlacementRef]parts{}
		x.groups[g.space] = space
	}
	all := space[g.of]
	if all == nil {
		all = parts{}
		space[g.of] = all
	}
	at := spot{g.space, l}
	if all[at] = one; one == (part{}) {
		if delete(all, at); len(all) == 0 {
			delete(space, g.of)
		}
		if len(space) == 0 {
			delete(x.groups, g.space)
		}
	}
	x.dirty[g.placement()] = struct{}{}
	for name := range x.owners[g.space] {
		x.dirty[key.Placement{Space: g.space, Name: name}] = struct{}{}
	}
	if !g.reached() {
		return
	}
	for name := range x.owners[key.Root] {
		x.dirty[key.Placement{Space: key.Root, Name: name}] = struct{}{}
	}
}

// notePlacement notes what a Placement confirms, and adds to moved the locations whose
// Confirmations may change.
func (x *Index) notePlacement(p key.Placement, row *table.Row, moved map[key.Location]struct{}) {
	var now owner
	if row != nil {
		now = owner{digest: row.Annotation(v1alpha1.ConfirmPruneAnnotation), raw: gjson.GetBytes(row.Value, "status.confirmed").Raw}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.owners[p.Space][p.Name]
	if was.digest == now.digest && was.raw == now.raw {
		return
	}
	if now.raw != "" && json.Unmarshal([]byte(now.raw), &now.confirmed) != nil { // nothing that the hub has written
		now.confirmed = nil
	}
	x.dirty[p] = struct{}{}
	if was.raw != now.raw { // it may confirm removals of other Placements
		for of := range x.toldIn(p.Space) {
			x.dirty[of] = struct{}{}
		}
	}
	x.count(p.Space, was.confirmed, -1, moved)
	x.count(p.Space, now.confirmed, 1, moved)
	if was.digest != now.digest {
		for l, place := range x.places {
			if _, here := place.spaces[p.Space]; here {
				moved[l] = struct{}{}
			}
		}
	}
	if x.owners[p.Space] == nil {
		x.owners[p.Space] = map[string]owner{}
	}
	if x.owners[p.Space][p.Name] = now; now.digest == "" && now.raw == "" {
		if delete(x.owners[p.Space], p.Name); len(x.owners[p.Space]) == 0 {
			delete(x.owners, p.Space)
		}
	}
}

// count adds n to the count of each of some confirmations of a Placement in a space. Only
// one in root confirms anything of another.
func (x *Index) count(s key.Space, all []v1alpha1.ConfirmedPrune, n int, moved map[key.Location]struct{}) {
	for _, one := range all {
		l, c := key.Location(one.Location), let{wire.Confirmation{Space: string(s), Digest: one.Digest}, false}
		if one.Space != "" {
			if s != key.Root {
				continue
			}
			c.Space, c.byRoot = one.Space, true
		}
		if x.let[l] == nil {
			x.let[l] = map[let]int{}
		}
		if x.let[l][c] += n; x.let[l][c] == 0 {
			if delete(x.let[l], c); len(x.let[l]) == 0 {
				delete(x.let, l)
			}
		}
		moved[l] = struct{}{}
	}
}

// Dirty names the Placements whose Status may have changed since it was last called;
// some may be gone.
func (x *Index) Dirty() []key.Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Collect(maps.Keys(x.dirty))
	clear(x.dirty)
	return all
}
