package read

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// Location is the view of the objects that are desired at a location: those assigned to it,
// rendered, with the namespaces of its namespace mapping. Held objects are not part of it, nor
// are objects whose place at the location is taken by another space's object.
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
		if q.matches(row.Key) && l.contains(row) {
			rows = append(rows, row)
		}
		return "", true
	})
	slices.SortFunc(rows, func(a, b *table.Row) int { return strings.Compare(l.place(a), l.place(b)) })
	return listed(l, rev, rows)
}

// nextOf returns the key at which the rows of a resource continue after a row of another resource:
// in the same space or in the next one.
func nextOf(row *table.Row, r key.Resource) string {
	s := spaceOf(row)
	if prefix := key.ResourcePrefix(s, r); prefix > row.Key {
		return prefix
	}
	return key.After(key.SpacePrefix(s))
}

// listed returns the state with these rows, which must be in the order of places.
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

func (l locationLens) contains(row *table.Row) bool { return IsDesired(row, l.name) }

func (l locationLens) place(row *table.Row) string {
	namespace, name := nameOf(l.placing, row)
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func (l locationLens) since(t *table.Table) int64 { return createdAt(t, l.name.Key()) }

func (l locationLens) display(t *table.Table, _ *kinds.Kind) display {
	shown := display{location: l.name, placing: l.placing, listRevision: true}
	if row, _ := t.Get(l.name.Key()); row != nil {
		shown.mark = key.OwnershipMark(l.name, row.Meta.UID)
	}
	return shown
}

// conditions require that the location is the one that existed at the revision: earlier changes
// belong to a deleted location of the same name.
func (l locationLens) conditions(_ *Config, _ *kinds.Kind, from int64) []table.Condition {
	return []table.Condition{table.ObjectExists(l.name.Key(), from, errAnother)}
}
