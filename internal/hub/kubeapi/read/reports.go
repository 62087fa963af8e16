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

// Reports is the view of what a location, or key.AllLocations, reports about the objects of a
// space, or key.AllSpaces: what was placed, as it is in its space and with the status that it
// has at the location, and what was born or is owned there, as the cluster shows it. With
// wildcards, names are made wide, so that no two objects have one.
//
// An object is made of several rows: the report, and the object that it is about as long as
// that is assigned to the location. Those of one identity are one object: of their reports the
// first counts in the order of origins.
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

// reportsLens has an empty space or location for all.
type reportsLens struct {
	space    key.Space
	location key.Location
	wide     key.Wide
}

// origins are those of reports, the first of which counts.
var origins = [...]key.Origin{key.Placed, key.Born, key.Owned}

func (l reportsLens) String() string {
	s, at := l.space, l.location
	if l.wide.Spaces {
		s = key.AllSpaces
	}
	if l.wide.Locations {
		at = key.AllLocations
	}
	return route.Reported(s, at).String()
}

// asked is what a query asks for, by the names that objects have in their space and
// location; ok is false if nothing has such names.
func (l reportsLens) asked(q query) (c key.Called, ok bool) {
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

// topics are the reports and, where these may be about what was placed, the objects.
func (l reportsLens) topics(q query) []table.Topic {
	c, ok := l.asked(q)
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

// holds is true: what is no object is not made.
func (reportsLens) holds(*table.Row) bool { return true }

// place is LOCATION/SPACE/[NAMESPACE/]NAME.
func (reportsLens) place(row *table.Row) string {
	of := row.In.(*reported)
	return of.at().String()
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

func (l reportsLens) looks(*table.Table, *kinds.Kind) look {
	return look{reports: true, wide: l.wide, listRevision: true}
}

// premises are that the space and the location are those that existed at the revision. Of how
// a kind is defined, no more than its names is shown.
func (l reportsLens) premises(c *Config, _ *kinds.Kind, from int64) (all []table.Condition) {
	if l.space != "" {
		all = spaceLens{l.space}.stands(c, from)
	}
	if l.location != "" {
		all = append(all, table.ObjectExists(l.location.Key(), from, errAnother))
	}
	return all
}

func (l reportsLens) now(t *table.Table, q query) state {
	snapshot := t.Snapshot()
	return l.past(world{snap: snapshot}, q, snapshot.Rev)
}

// past is the state of a query in a world of a revision.
func (l reportsLens) past(w world, q query, rev int64) state {
	return state{rev, func(start string, fn func(*table.Row) bool) { l.each(w, q, start, fn) }}
}

// spot is where an object is: what reports about it, of all origins, have in common.
type spot struct {
	location key.Location
	space    key.Space
	// rest is [NAMESPACE/]NAME.
	rest string
}

func (p spot) String() string { return string(p.location) + "/" + string(p.space) + "/" + p.rest }

func (p spot) object(r key.Resource) key.Object {
	o := key.Object{Space: p.space, Identity: key.Identity{Resource: r}}
	o.Namespace, o.Name = key.SplitName(p.rest)
	return o
}

// spotOf is where the object is that the key of a report is about.
func spotOf(k string) (spot, bool) {
	r, err := key.ParseReport(k)
	if err != nil {
		return spot{}, false
	}
	rest := r.Name
	if r.Namespace != "" {
		rest = r.Namespace + "/" + r.Name
	}
	return spot{r.Location, r.Space, rest}, true
}

// is says whether something asked for may be at the spot.
func (p spot) is(c key.Called) bool {
	namespace, name := key.SplitName(p.rest)
	return (c.Location == "" || c.Location == p.location) && (c.Space == "" || c.Space == p.space) &&
		(c.Namespace == "" || c.Namespace == namespace) && (c.Name == "" || c.Name == name)
}

// make makes the object at the spot of its rows; nil if there is none.
func (p spot) make(r key.Resource, get func(string) *table.Row) *table.Row {
	o := p.object(r)
	for _, origin := range origins {
		report := get(key.Report{Location: p.location, Origin: origin, Object: o}.Key())
		if report == nil || origin == key.Placed && objectstate.Removed(report.Report(), "") {
			continue
		}
		of := &reported{location: p.location, origin: origin, object: o}
		if origin == key.Placed {
			if source := get(o.Key()); isAssigned(source, p.location) {
				of.source = source
			}
		}
		return &table.Row{Entry: report.Entry, In: of}
	}
	return nil
}

// isAssigned says whether a row's object is assigned to a location.
func isAssigned(row *table.Row, l key.Location) bool {
	if !tells(row, l) {
		return false
	}
	p, ok := row.In.(placed)
	if !ok {
		return true
	}
	_, ok = p.Place(l)
	return ok
}

// tells says whether a row says something of a location.
func tells(row *table.Row, l key.Location) bool {
	return row != nil && row.In != nil && row.In.Includes(l)
}

// spots are where the objects are that a change is about: one for a report, those of the
// locations for which something changes for what may have been placed.
func (l reportsLens) spots(c table.Change) (all []spot) {
	k := c.Row().Key
	if key.ClassOf(k) == key.Reports {
		if p, ok := spotOf(k); ok {
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
		for _, at := range row.In.Locations() {
			twice := row == c.Cur && tells(c.Prev, at)
			same := c.SameEntry() && tells(c.Prev, at) && tells(c.Cur, at) && c.Cur.In.SameAt(at, c.Prev.In)
			if !twice && !same && (l.location == "" || l.location == at) {
				all = append(all, spot{at, space, strings.Clone(rest)})
			}
		}
	}
	return all
}
