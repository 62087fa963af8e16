// Package prune adds up the removals that wait for a confirmation, over all
// locations, by the Placement that let go, and keeps what owners of Placements
// confirmed until it has gone.
//
// It reads the rows of Locations, in which agents say what waits, and those of
// Placements, and is a function of them: what is confirmed survives a restart. What
// it lets go of is always what waited at a location when it was confirmed, by the
// location's own digest. It must never write, and has no goroutine and no clock.
package prune

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// Placement names a Placement, there or gone; without a name it stands for what
// waits in a space of which no Placement is known.
type Placement struct {
	Space key.Space
	Name  string
}

// part is what waits at one location of what one Placement let go.
type part struct {
	pending int64
	digest  string
}

// parts are those of one Placement, by location.
type parts map[key.Location]part

// place is what waits at one location.
type place struct {
	of map[Placement]part
	// spaces are those whose owners are heard there.
	spaces map[key.Space]struct{}
}

// owner is what a Placement says of removals.
type owner struct {
	// digest is that of its annotation.
	digest string
	// confirmed is the list in its status, also as the row has it.
	confirmed []v1alpha1.ConfirmedPrune
	raw       string
}

// Index is safe for concurrent use. It is a table.Observer.
type Index struct {
	// changed is called, without the lock, for each location whose Confirmations may
	// be others since the row of a Placement is.
	changed func(key.Location)

	mu     sync.RWMutex
	places map[key.Location]place
	groups map[key.Space]map[string]parts
	owners map[key.Space]map[string]owner
	// let counts, by location, the Placements whose status has a confirmation.
	let   map[key.Location]map[wire.Confirmation]int
	dirty map[Placement]struct{}
}

var _ table.Observer = (*Index)(nil)

// New makes an Index that has been told of nothing. changed must be quick.
func New(changed func(key.Location)) *Index {
	x := &Index{changed: changed, dirty: map[Placement]struct{}{}}
	x.Reset()
	return x
}

// Reset forgets everything.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places = map[key.Location]place{}
	x.groups = map[key.Space]map[string]parts{}
	x.owners = map[key.Space]map[string]owner{}
	x.let = map[key.Location]map[wire.Confirmation]int{}
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
				x.notePlacement(Placement{o.Space, o.Name}, ch.Cur, moved)
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
	for p := range was.of {
		if _, stays := now.of[p]; !stays {
			x.setPart(p, l, part{})
		}
	}
	for p, one := range now.of {
		if was.of[p] != one {
			x.setPart(p, l, one)
		}
	}
	if x.places[l] = now; len(now.of)+len(now.spaces) == 0 {
		delete(x.places, l)
	}
}

// placeOf reads what waits at a location out of its row; one that is gone or going
// has nothing.
func placeOf(row *table.Row) place {
	p := place{of: map[Placement]part{}, spaces: map[key.Space]struct{}{}}
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
			p.of[Placement{key.Space(one.Space), one.Placement}] = part{one.Pending, one.Digest}
		}
	}
	return p
}

// setPart sets what waits of a Placement at a location. Its status may be another
// now, and so may those of Placements of the space that have confirmed something.
func (x *Index) setPart(p Placement, l key.Location, one part) {
	space := x.groups[p.Space]
	if space == nil {
		space = map[string]parts{}
		x.groups[p.Space] = space
	}
	all := space[p.Name]
	if all == nil {
		all = parts{}
		space[p.Name] = all
	}
	if all[l] = one; one == (part{}) {
		if delete(all, l); len(all) == 0 {
			delete(space, p.Name)
		}
		if len(space) == 0 {
			delete(x.groups, p.Space)
		}
	}
	x.dirty[p] = struct{}{}
	for name := range x.owners[p.Space] {
		x.dirty[Placement{p.Space, name}] = struct{}{}
	}
}

// notePlacement notes what a Placement has confirmed and adds the locations that may
// have to hear of it.
func (x *Index) notePlacement(p Placement, row *table.Row, moved map[key.Location]struct{}) {
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
	if was.raw != now.raw { // what it has confirmed may be another's
		for name := range x.groups[p.Space] {
			x.dirty[Placement{p.Space, name}] = struct{}{}
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

// count adds n to the count of each of some confirmations.
func (x *Index) count(s key.Space, all []v1alpha1.ConfirmedPrune, n int, moved map[key.Location]struct{}) {
	for _, one := range all {
		l, c := key.Location(one.Location), wire.Confirmation{Space: string(s), Digest: one.Digest}
		if x.let[l] == nil {
			x.let[l] = map[wire.Confirmation]int{}
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
func (x *Index) Dirty() []Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Collect(maps.Keys(x.dirty))
	clear(x.dirty)
	return all
}
