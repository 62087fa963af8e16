// Package prune sums up pending removals over all locations, by the Placement that no longer
// assigns the objects. It keeps the confirmations by owners of Placements until they are executed.
//
// It is a function of the rows of Locations, with the status of agents, and of Placements, so
// confirmations survive a restart. A confirmation for an agent always identifies the removals that
// were pending at the location at the time of the confirmation, by the location's own digest. The
// package must never write, and has no goroutine and no clock.
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

// group identifies the pending removals of a space's objects by the Placement that no longer
// assigns them; without a ref, those without a known Placement.
type group struct {
	space key.Space
	ref   key.PlacementRef
}

// placement returns the Placement of the group.
func (g group) placement() key.Placement { return g.ref.Resolve(g.space) }

// reached reports whether the Placement is in root and the space is another one.
func (g group) reached() bool { return g.placement().Space != g.space }

// pendingPart are the pending removals of one group at one location.
type pendingPart struct {
	pending int64
	digest  string
}

// locationSpace is a space at a location.
type locationSpace struct {
	space    key.Space
	location key.Location
}

// pendingParts are the pending removals of one group, or of all groups of a Placement of root.
type pendingParts map[locationSpace]pendingPart

// let is a confirmation for an agent. byRoot reports whether it was given in root for another
// space: then it applies only to removals by Placements of root.
type let struct {
	wire.Confirmation
	byRoot bool
}

// place holds the pending removals at one location.
type place struct {
	groups map[group]pendingPart
	// spaces are the spaces with pending removals, whose owners may confirm these.
	spaces map[key.Space]struct{}
}

// owner holds the fields of a Placement about removals.
type owner struct {
	// digest is the digest in its annotation.
	digest string
	// confirmed is the list in its status; raw is the list as JSON.
	confirmed []v1alpha1.ConfirmedPrune
	raw       string
}

// Index is a table.Observer and safe for concurrent use.
type Index struct {
	// changed is called, without the lock, for each location whose Confirmations may have changed
	// because of a Placement.
	changed func(key.Location)

	mu     sync.RWMutex
	places map[key.Location]place
	groups map[key.Space]map[key.PlacementRef]pendingParts
	owners map[key.Space]map[string]owner
	// let counts, by location and confirmation, the Placements with this confirmation in their
	// status.
	let   map[key.Location]map[let]int
	dirty map[key.Placement]struct{}
}

var _ table.Observer = (*Index)(nil)

// New returns an empty Index. changed must return quickly.
func New(changed func(key.Location)) *Index {
	x := &Index{changed: changed, dirty: map[key.Placement]struct{}{}}
	x.Reset()
	return x
}

// Reset implements table.Observer.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places = map[key.Location]place{}
	x.groups = map[key.Space]map[key.PlacementRef]pendingParts{}
	x.owners = map[key.Space]map[string]owner{}
	x.let = map[key.Location]map[let]int{}
}

// Observe implements table.Observer: it reads changes of Locations and Placements.
func (x *Index) Observe(_ int64, changes []table.Change) {
	locations := key.ResourcePrefix(key.Root, key.Locations)
	moved := map[key.Location]struct{}{}
	for _, ch := range changes {
		k := ch.Row().Key
		if name, ok := strings.CutPrefix(k, locations); ok {
			x.noteLocation(key.Location(name), ch.Cur)
		} else if strings.Contains(k, "/placements/") { // cheaper than parsing the key
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
	old := x.places[l]
	for g := range old.groups {
		if _, stays := now.groups[g]; !stays {
			x.setPending(g, l, pendingPart{})
		}
	}
	for g, one := range now.groups {
		if old.groups[g] != one {
			x.setPending(g, l, one)
		}
	}
	if x.places[l] = now; len(now.groups)+len(now.spaces) == 0 {
		delete(x.places, l)
	}
}

// placeOf reads the pending removals of a location from its row. There are none if the location
// does not exist or is being deleted.
func placeOf(row *table.Row) place {
	p := place{groups: map[group]pendingPart{}, spaces: map[key.Space]struct{}{}}
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
			p.groups[group{key.Space(one.Space), key.PlacementRef(one.Placement)}] = pendingPart{one.Pending, one.Digest}
		}
	}
	return p
}

// setPending sets the pending removals of a group at a location. That may change the status of its
// Placement, and those of Placements with confirmations: of the same space, and of root if the
// group's Placement is in root.
func (x *Index) setPending(g group, l key.Location, one pendingPart) {
	space := x.groups[g.space]
	if space == nil {
		space = map[key.PlacementRef]pendingParts{}
		x.groups[g.space] = space
	}
	all := space[g.ref]
	if all == nil {
		all = pendingParts{}
		space[g.ref] = all
	}
	place := locationSpace{g.space, l}
	if all[place] = one; one == (pendingPart{}) {
		if delete(all, place); len(all) == 0 {
			delete(space, g.ref)
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

// notePlacement records the confirmations of a Placement, and adds to moved the locations whose
// Confirmations may change.
func (x *Index) notePlacement(p key.Placement, row *table.Row, moved map[key.Location]struct{}) {
	var now owner
	if row != nil {
		now = owner{digest: row.Annotation(v1alpha1.ConfirmPruneAnnotation), raw: gjson.GetBytes(row.Value, "status.confirmed").Raw}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.owners[p.Space][p.Name]
	if old.digest == now.digest && old.raw == now.raw {
		return
	}
	if now.raw != "" && json.Unmarshal([]byte(now.raw), &now.confirmed) != nil { // nothing that the hub has written
		now.confirmed = nil
	}
	x.dirty[p] = struct{}{}
	if old.raw != now.raw { // it may confirm removals of other Placements
		for placement := range x.visibleIn(p.Space) {
			x.dirty[placement] = struct{}{}
		}
	}
	x.count(p.Space, old.confirmed, -1, moved)
	x.count(p.Space, now.confirmed, 1, moved)
	if old.digest != now.digest {
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

// count adds n to the count of each of some confirmations of a Placement in a space. Only a
// Placement in root can confirm removals of another space.
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

// Dirty returns the Placements whose Status may have changed since the last call. Some may no
// longer exist.
func (x *Index) Dirty() []key.Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Collect(maps.Keys(x.dirty))
	clear(x.dirty)
	return all
}
