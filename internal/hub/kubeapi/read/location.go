package read

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// Location is the view of what is desired at a location: the rows that belong to it,
// rendered, without those that are held or in whose place the location has another space's
// object. They are where the location puts them.
func Location(name key.Location, p key.Placing) Lens { return locationLens{name, p} }

type locationLens struct {
	name    key.Location
	placing key.Placing
}

func (l locationLens) String() string { return route.View(l.name).String() }

func (l locationLens) topics(query) []table.Topic { return []table.Topic{table.LocationTopic(l.name)} }

func (l locationLens) now(t *table.Table, q query) state {
	var rows []*table.Row
	rev := t.AscendMembers(l.name, func(row *table.Row) (from string, more bool) {
		if r, _ := restOf(row); r != q.resource {
			return nextOf(row, q.resource), true
		}
		if q.about(row.Key) && l.holds(row) {
			rows = append(rows, row)
		}
		return "", true
	})
	slices.SortFunc(rows, func(a, b *table.Row) int { return strings.Compare(l.place(a), l.place(b)) })
	return listed(l, rev, rows)
}

// nextOf is where the rows of a resource continue after a row of another one: in the same
// space or in the next one.
func nextOf(row *table.Row, r key.Resource) string {
	s := spaceOf(row)
	if prefix := key.ResourcePrefix(s, r); prefix > row.Key {
		return prefix
	}
	return key.After(key.SpacePrefix(s))
}

// listed is the state with the given rows, which are in the order of places.
func listed(l Lens, rev int64, rows []*table.Row) state {
	return state{rev, func(start string, fn func(*table.Row) bool) {
		i, _ := slices.BinarySearchFunc(rows, start, func(row *table.Row, start string) int {
			return strings.Compare(l.place(row), start)
		})
		for _, row := range rows[i:] {
			if !fn(row) {
				return
			}
		}
	}}
}

func (l locationLens) holds(row *table.Row) bool { return Holds(row, l.name) }

func (l locationLens) place(row *table.Row) string {
	namespace, name := nameOf(l.placing, row)
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// nameOf is what the object of a row is called where it is put.
func nameOf(p key.Placing, row *table.Row) (namespace, name string) {
	s, r, rest, _ := key.Split(row.Key)
	namespace, name = key.SplitName(rest)
	at := p.At(key.Object{Space: s, Identity: key.Identity{Resource: r, Namespace: namespace, Name: name}})
	return at.Namespace, at.Name
}

func (l locationLens) since(t *table.Table) int64 { return createdAt(t, l.name.Key()) }

func (l locationLens) looks(t *table.Table, _ *kinds.Kind) look {
	shown := look{at: l.name, placing: l.placing, listRevision: true}
	if row, _ := t.Get(l.name.Key()); row != nil {
		shown.mark = key.OwnershipMark(l.name, row.Meta.UID)
	}
	return shown
}
