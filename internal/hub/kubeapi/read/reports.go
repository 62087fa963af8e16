package read

import (
	"strings"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// Reports is the view of the reports of a location, or key.AllLocations, about the objects of a
// space, or key.AllSpaces. A placed object has the content of its source and the status that it
// has at the location. An upsynced or associated object is as the cluster serves it. Over all
// spaces or locations, wide names make the names of objects unique.
//
// An object is composed of two rows: the report, and the source object while that is assigned to
// the location. Reports of the same identity are one object; if they differ in origin, the first
// of origins counts.
func Reports(s key.Space, l key.Location) Lens {
	lens := reportsLens{space: s, location: l}
	if s == key.AllSpaces {
		lens.space, lens.wide.Spaces = "", true
	}
	if l == key.AllLocations {
		lens.location, lens.wide.Locations = "", true
	}
	return lens
}

// reportsLens has an empty space or location for all of them.
type reportsLens struct {
	space    key.Space
	location key.Location
	wide     key.Wide
}

// origins are the origins of reports, in descending priority.
var origins = [...]key.Origin{key.Placed, key.Upsynced, key.Owned}

func (l reportsLens) String() string {
	s, location := l.space, l.location
	if l.wide.Spaces {
		s = key.AllSpaces
	}
	if l.wide.Locations {
		location = key.AllLocations
	}
	return route.Reported(s, location).String()
}

// target returns the query with the names that objects have in their space and location; ok is
// false if no object can have such names.
func (l reportsLens) target(q query) (c key.Called, ok bool) {
	if c, ok = l.wide.Split(q.namespaced, q.namespace, q.name); !ok {
		return c, false
	}
	if !l.wide.Spaces {
		c.Space = l.space
	}
	if !l.wide.Locations {
		c.Location = l.location
	}
	return c, true
}

// topics are the reports and, for kinds that can be placed, the source objects.
func (l reportsLens) topics(q query) []table.Topic {
	c, ok := l.target(q)
	if !ok {
		c = key.Called{Space: l.space, Location: l.location}
	}
	reports := table.ReportTopic(c.Location, c.Space, q.resource)
	if placement.Never(q.resource) != "" {
		return []table.Topic{reports}
	}
	objects := table.ResourceTopic(q.resource)
	switch {
	case c.Space == "":
	case c.Name != "" && (c.Namespace != "" || !q.namespaced):
		objects = table.KeyTopic(key.Object{Space: c.Space, Identity: key.Identity{Resource: q.resource, Namespace: c.Namespace, Name: c.Name}}.Key())
	case c.Namespace != "":
		objects = table.PrefixTopic(key.NamespacePrefix(c.Space, q.resource, c.Namespace))
	default:
		objects = table.PrefixTopic(key.ResourcePrefix(c.Space, q.resource))
	}
	return []table.Topic{reports, objects}
}

// contains returns true: make composes only objects of the view.
func (reportsLens) contains(*table.Row) bool { return true }

// place returns LOCATION/SPACE/[NAMESPACE/]NAME.
func (reportsLens) place(row *table.Row) string {
	o := row.In.(*reported)
	return o.position().String()
}

func (l reportsLens) since(t *table.Table) (rev int64) {
	if l.space != "" {
		rev = Space(l.space).since(t)
	}
	if l.location != "" {
		rev = max(rev, createdAt(t, l.location.Key()))
	}
	return rev
}

func (l reportsLens) display(*table.Table, *kinds.Kind) display {
	return display{reports: true, wide: l.wide, listRevision: true}
}

// conditions require that the space and the location are those that existed at the revision. The
// view uses only the names of a kind, so a change of its definition does not matter.
func (l reportsLens) conditions(c *Config, _ *kinds.Kind, from int64) (all []table.Condition) {
	if l.space != "" {
		all = spaceLens{l.space}.exists(c, from)
	}
	if l.location != "" {
		all = append(all, table.ObjectExists(l.location.Key(), from, errAnother))
	}
	return all
}

// position is the location, space and name of an object. Its reports of all origins share it.
type position struct {
	location key.Location
	space    key.Space
	// rest is [NAMESPACE/]NAME.
	rest string
}

func (p position) String() string { return string(p.location) + "/" + string(p.space) + "/" + p.rest }

func (p position) object(r key.Resource) key.Object {
	o := key.Object{Space: p.space, Identity: key.Identity{Resource: r}}
	o.Namespace, o.Name = key.SplitName(p.rest)
	return o
}

func (o *reported) position() position {
	rest := o.object.Name
	if o.object.Namespace != "" {
		rest = o.object.Namespace + "/" + o.object.Name
	}
	return position{o.location, o.object.Space, rest}
}

// positionOf returns the position of the object that the key of a report is about.
func positionOf(k string) (position, bool) {
	r, err := key.ParseReport(k)
	if err != nil {
		return position{}, false
	}
	rest := r.Name
	if r.Namespace != "" {
		rest = r.Namespace + "/" + r.Name
	}
	return position{r.Location, r.Space, rest}, true
}

// matches reports whether the position can be that of an object in the target.
func (p position) matches(c key.Called) bool {
	namespace, name := key.SplitName(p.rest)
	return (c.Location == "" || c.Location == p.location) && (c.Space == "" || c.Space == p.space) &&
		(c.Namespace == "" || c.Namespace == namespace) && (c.Name == "" || c.Name == name)
}

// make composes the object at the position from its rows; nil if there is none.
func (p position) make(r key.Resource, get func(string) *table.Row) *table.Row {
	o := p.object(r)
	for _, origin := range origins {
		report := get(key.Report{Location: p.location, Origin: origin, Object: o}.Key())
		if report == nil || origin == key.Placed && objectstate.Removed(report.Report(), "") {
			continue
		}
		composed := &reported{location: p.location, origin: origin, object: o}
		if origin == key.Placed {
			if source := get(o.Key()); isAssigned(source, p.location) {
				composed.source = source
			}
		}
		return &table.Row{Entry: report.Entry, In: composed}
	}
	return nil
}

// isAssigned reports whether a row's object is assigned to a location.
func isAssigned(row *table.Row, l key.Location) bool {
	if !includes(row, l) {
		return false
	}
	p, ok := row.In.(placed)
	if !ok {
		return true
	}
	_, ok = p.Place(l)
	return ok
}

// includes reports whether the membership of a row includes a location.
func includes(row *table.Row, l key.Location) bool {
	return row != nil && row.In != nil && row.In.Includes(l)
}

// positions returns the positions of the objects that a change may affect. For a report this is
// one; for a source object, one for each location at which something changes.
func (l reportsLens) positions(c table.Change) (all []position) {
	k := c.Row().Key
	if key.ClassOf(k) == key.Reports {
		if p, ok := positionOf(k); ok {
			all = append(all, p)
		}
		return all
	}
	space, _, rest, ok := key.Split(k)
	if !ok {
		return nil
	}
	for _, row := range []*table.Row{c.Prev, c.Cur} {
		if row == nil || row.In == nil {
			continue
		}
		for _, location := range row.In.Locations() {
			twice := row == c.Cur && includes(c.Prev, location)
			same := c.SameEntry() && includes(c.Prev, location) && includes(c.Cur, location) && c.Cur.In.SameAt(location, c.Prev.In)
			if !twice && !same && (l.location == "" || l.location == location) {
				all = append(all, position{location, space, strings.Clone(rest)})
			}
		}
	}
	return all
}
