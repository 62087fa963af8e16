package read

import (
	"math"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// A Lens is one view of the table: which rows are its objects, in which order, and how clients
// see them. It has no state and depends on the rows alone. Space, AllSpaces, Location, Reports
// and ExportView return one.
type Lens interface {
	// String is the view's path.
	String() string
	// topics returns the subscriptions of a watch. They may cover more than the query.
	topics(query) []table.Topic
	// now returns the current state of a query, in the order of places.
	now(*table.Table, query) state
	// contains reports whether a row of the query's state is an object of the view.
	contains(*table.Row) bool
	// place returns the position of an object in lists of one resource. At one revision, no two
	// objects of the view have the same place.
	place(*table.Row) string
	// conditions returns the stream conditions of a watch of a kind that starts at a revision.
	conditions(c *Config, k *kinds.Kind, from int64) []table.Condition
	// since is the revision at which the space or location was created; older revisions belong
	// to a deleted one of the same name.
	since(*table.Table) int64
	// display returns how the view displays the objects of a kind.
	display(*table.Table, *kinds.Kind) display
}

// query selects the objects of one resource, optionally of one namespace only or with one name.
type query struct {
	resource key.Resource
	// namespaced reports whether the resource is namespaced.
	namespaced bool
	// namespace and name are empty for all. They are names in the view, not those in the space.
	namespace, name string
	placing         key.Placing
	wide            key.Wide
}

// matches reports whether the object of a key is in the query.
func (q query) matches(k string) bool {
	s, resource, rest, ok := key.Split(k)
	if !ok || resource != q.resource {
		return false
	}
	o := key.Object{Space: s, Identity: key.Identity{Resource: resource}}
	o.Namespace, o.Name = key.SplitName(rest)
	identity := q.placing.TargetIdentity(o)
	if q.wide.Spaces {
		identity.Namespace, identity.Name = q.wide.ObjectName("", o)
	}
	return (q.namespace == "" || q.namespace == identity.Namespace) && (q.name == "" || q.name == identity.Name)
}

// single reports whether at most one object of a space can match the query.
func (q query) single() bool { return q.name != "" && (q.namespace != "" || !q.namespaced) }

func (q query) object(s key.Space) key.Object {
	return key.Object{Space: s, Identity: key.Identity{Resource: q.resource, Namespace: q.namespace, Name: q.name}}
}

// display describes how a view displays the objects of a kind.
type display struct {
	// space adds the annotation that names the space of an object.
	space bool
	// location, if set, displays objects as they are rendered for it, with their names there.
	location key.Location
	placing  key.Placing
	// mark is the value of the location's label; empty if the location does not exist.
	mark string
	// reports is set if rows are composed of reports. Objects then have wide names.
	reports bool
	wide    key.Wide
	// exportView is set if the view's rows also change by writes to other objects, such as an
	// APIBinding. With wide names, owners of the clustered kinds have wide names, too.
	exportView bool
	clustered  clustered
	// listRevision gives items the revision of the list instead of their own.
	listRevision bool
	// metadataOnly returns PartialObjectMetadata for all requests.
	metadataOnly bool
	// counts adds columns to tables with the progress of objects at their locations.
	counts bool
	// foreign removes fields about other spaces, see withoutOthers.
	foreign bool
	// shared is set if several objects may have the same name. Then there is no get by name.
	shared bool
}

// state is the content of a view at one revision.
type state struct {
	rev int64
	// from calls fn for the rows from the place start on, in the order of places, until it
	// returns false.
	from func(start string, fn func(*table.Row) bool)
}

// Space is the view of one space: its objects as stored, and the Locations of root.
func Space(name key.Space) Lens { return spaceLens{name} }

type spaceLens struct{ name key.Space }

func (l spaceLens) String() string { return route.Space(l.name).String() }

func (l spaceLens) topics(q query) []table.Topic {
	if q.single() {
		return []table.Topic{table.KeyTopic(q.object(l.home(q.resource)).Key())}
	}
	return []table.Topic{table.PrefixTopic(l.prefix(q))}
}

// prefix is the narrowest prefix of all keys of the query.
func (l spaceLens) prefix(q query) string {
	if q.namespaced && q.namespace != "" {
		return key.NamespacePrefix(l.home(q.resource), q.resource, q.namespace)
	}
	return key.ResourcePrefix(l.home(q.resource), q.resource)
}

// home returns the space that stores a resource: every space reads Locations from root.
func (l spaceLens) home(r key.Resource) key.Space {
	if r == key.Locations {
		return key.Root
	}
	return l.name
}

func (l spaceLens) now(t *table.Table, q query) state {
	if q.single() {
		row, rev := t.Get(q.object(l.home(q.resource)).Key())
		return state{rev, func(start string, fn func(*table.Row) bool) {
			if row != nil && l.place(row) >= start {
				fn(row)
			}
		}}
	}
	snap, resource, prefix := t.Snapshot(), key.ResourcePrefix(l.home(q.resource), q.resource), l.prefix(q)
	return state{snap.Rev, func(start string, fn func(*table.Row) bool) {
		snap.AscendFrom(max(prefix, resource+start), func(row *table.Row) bool {
			return strings.HasPrefix(row.Key, prefix) && fn(row)
		})
	}}
}

// contains excludes Locations that admit nothing of the space.
func (l spaceLens) contains(row *table.Row) bool { return placement.Shown(row, l.name) }

func (l spaceLens) place(row *table.Row) string {
	_, rest := restOf(row)
	return rest
}

func (l spaceLens) since(t *table.Table) int64 {
	if l.name == key.Root {
		return 0
	}
	return createdAt(t, l.name.Key())
}

// createdAt returns the revision at which an object was created, or MaxInt64 if it does not exist.
func createdAt(t *table.Table, k string) int64 {
	row, _ := t.Get(k)
	if row == nil {
		return math.MaxInt64
	}
	return row.CreateRev
}

// display removes what a Location reports about other spaces. `orrery why` returns what concerns
// the caller's own space.
func (l spaceLens) display(_ *table.Table, k *kinds.Kind) display {
	return display{counts: placement.Never(k.Resource) == "", foreign: l.home(k.Resource) != l.name}
}

// conditions require that the space is the one that existed at the revision, and that it still
// defines the kind in the same way.
func (l spaceLens) conditions(c *Config, k *kinds.Kind, from int64) []table.Condition {
	all := l.exists(c, from)
	if k.Custom == nil || k.GVK.Group == v1alpha1.Group || c.Defines == nil {
		return all
	}
	for _, definition := range c.DefinedBy(l.name, k) {
		all = append(all, table.Condition{
			Key:   definition,
			IsMet: func(*table.Row) bool { return c.Defines(l.name, k) },
			End:   errStopped,
		})
	}
	return all
}

// exists returns the conditions that the space exists, and is the one that existed at the revision.
func (l spaceLens) exists(c *Config, from int64) []table.Condition {
	if l.name == key.Root {
		return nil
	}
	return []table.Condition{table.ObjectExists(l.name.Key(), c.Table.Rev(), errStopped), table.ObjectExists(l.name.Key(), from, errAnother)}
}

// AllSpaces is the view of all spaces at once. Objects carry SpaceAnnotation. Two spaces may
// define a kind differently, so kinds that CRDs define are served as PartialObjectMetadata.
func AllSpaces() Lens { return allSpacesLens{} }

type allSpacesLens struct{}

func (allSpacesLens) String() string { return route.Space(key.AllSpaces).String() }

func (allSpacesLens) topics(q query) []table.Topic {
	return []table.Topic{table.ResourceTopic(q.resource)}
}

func (allSpacesLens) now(t *table.Table, q query) state {
	snap := t.Snapshot()
	return state{snap.Rev, func(start string, fn func(*table.Row) bool) {
		acrossSpaces(snap, start, q, fn)
	}}
}

// acrossSpaces visits the rows of a query space by space. It skips other resources with one
// lookup per space.
func acrossSpaces(snap *table.Snapshot, start string, q query, fn func(*table.Row) bool) {
	from, more := key.OfPath(start), true
	for more {
		var space key.Space
		snap.AscendFrom(from, func(row *table.Row) bool {
			space = spaceOf(row) // stays empty after the last object
			return false
		})
		if space == "" {
			return
		}
		prefix := key.ResourcePrefix(space, q.resource)
		snap.AscendFrom(max(from, prefix), func(row *table.Row) bool {
			if !strings.HasPrefix(row.Key, prefix) {
				return false
			}
			if q.matches(row.Key) {
				more = fn(row)
			}
			return more
		})
		from = key.After(key.SpacePrefix(space))
	}
}

// conditions returns none: spaces may be created and deleted.
func (allSpacesLens) conditions(*Config, *kinds.Kind, int64) []table.Condition { return nil }

func (allSpacesLens) since(*table.Table) int64 { return 0 }

func (allSpacesLens) contains(*table.Row) bool { return true }

func (allSpacesLens) place(row *table.Row) string {
	path, _ := key.PathOf(row.Key)
	return path
}

func (allSpacesLens) display(_ *table.Table, k *kinds.Kind) display {
	return display{space: true, shared: true, metadataOnly: k.Custom != nil, counts: placement.Never(k.Resource) == ""}
}

// restOf returns the resource of a row, and [NAMESPACE/]NAME from its key.
func restOf(row *table.Row) (key.Resource, string) {
	_, r, rest, _ := key.Split(row.Key)
	return r, rest
}

// spaceOf returns the space in a row's key.
func spaceOf(row *table.Row) key.Space {
	s, _, _, _ := key.Split(row.Key)
	return s
}
