package read

import (
	"math"
	"strings"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// A Lens is one view of the table: which rows are its objects, in which order, and how they
// look. It is a value without state, and a function of the rows alone. Space, AllSpaces,
// Location, Reports and Shelf make one.
type Lens interface {
	// String is the view's path.
	String() string
	// topics are what a watch of a query subscribes to. They may be wider than the query.
	topics(query) []table.Topic
	// now is the current state of a query, in the order of places.
	now(*table.Table, query) state
	// holds says whether a row that is in the query's state is an object of the view.
	holds(*table.Row) bool
	// place identifies an object within one resource of the view: no two objects share one
	// at the same revision, and lists are in its order.
	place(*table.Row) string
	// premises are the premises of a watch of a kind that begins at a revision.
	premises(c *Config, k *kinds.Kind, from int64) []table.Condition
	// since is the revision from which on the view is of what it is of now: before that
	// there was another space, or location, of the name.
	since(*table.Table) int64
	// looks says how the objects of a kind are shown.
	looks(*table.Table, *kinds.Kind) look
}

// query says which objects of a view are asked for: those of one resource, perhaps of one
// namespace only, or with one name.
type query struct {
	resource key.Resource
	// namespaced says that the resource is namespaced.
	namespaced bool
	// namespace and name are empty for all. They are those that objects have in the view.
	namespace, name string
	placing         key.Placing
	wide            key.Wide
}

// about says whether a key is one of the query's.
func (q query) about(k string) bool {
	s, resource, rest, ok := key.Split(k)
	if !ok || resource != q.resource {
		return false
	}
	o := key.Object{Space: s, Identity: key.Identity{Resource: resource}}
	o.Namespace, o.Name = key.SplitName(rest)
	at := q.placing.At(o)
	if q.wide.Spaces {
		at.Namespace, at.Name = q.wide.At("", o)
	}
	return (q.namespace == "" || q.namespace == at.Namespace) && (q.name == "" || q.name == at.Name)
}

// single says that the query is for at most one object of a space.
func (q query) single() bool { return q.name != "" && (q.namespace != "" || !q.namespaced) }

func (q query) object(s key.Space) key.Object {
	return key.Object{Space: s, Identity: key.Identity{Resource: q.resource, Namespace: q.namespace, Name: q.name}}
}

// look is how a view shows the objects of a kind.
type look struct {
	// space adds the annotation that names the space.
	space bool
	// at, if set, shows objects as they are rendered for the location, where it puts them.
	at      key.Location
	placing key.Placing
	// mark is the value of the location's label; empty if the location does not exist.
	mark string
	// reports says that rows are made of reports, and shows objects by the names that are
	// wide.
	reports bool
	wide    key.Wide
	// shelf says that rows come and go by more than their own writes. With wide names, those
	// of owners of the clustered kinds are wide, too.
	shelf     bool
	clustered clustered
	// listRevision gives items the revision of the list in place of their own.
	listRevision bool
	// metadataOnly shows PartialObjectMetadata whatever the client asks for.
	metadataOnly bool
	// counts adds to tables how far objects have come at their locations.
	counts bool
	// foreign leaves out what names objects of other spaces, see withoutOthers.
	foreign bool
	// shared says that several objects may have one name, so that there is no get by name.
	shared bool
}

// state is what a view holds at one revision.
type state struct {
	rev int64
	// from calls fn for the rows from the place start on, in the order of places, until it
	// returns false.
	from func(start string, fn func(*table.Row) bool)
}

// Space is the view of one space: its objects as they were written, and the Locations of
// root.
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

// home is the space that has the objects of a resource: Locations are written in root and
// can be read in every space.
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

// holds leaves out Locations that admit nothing of the space.
func (l spaceLens) holds(row *table.Row) bool { return placement.Shown(row, l.name) }

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

// createdAt is the revision at which an object was created; one that is gone never was.
func createdAt(t *table.Table, k string) int64 {
	row, _ := t.Get(k)
	if row == nil {
		return math.MaxInt64
	}
	return row.CreateRev
}

// looks leaves out what a Location says of other spaces: who asks why learns what concerns
// the own one.
func (l spaceLens) looks(_ *table.Table, k *kinds.Kind) look {
	return look{counts: placement.Never(k.Resource) == "", foreign: l.home(k.Resource) != l.name}
}

// AllSpaces is the view of all spaces at once. Objects carry SpaceAnnotation.
// Kinds that CRDs define are shown as PartialObjectMetadata, because two
// spaces may define one kind differently.
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

// acrossSpaces visits the rows of a query space by space: it skips the objects of other
// resources at the cost of one look-up per space.
func acrossSpaces(snap *table.Snapshot, start string, q query, fn func(*table.Row) bool) {
	from, more := key.OfPath(start), true
	for more {
		var space key.Space
		snap.AscendFrom(from, func(row *table.Row) bool {
			space = spaceOf(row) // none behind the last object
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
			if q.about(row.Key) {
				more = fn(row)
			}
			return more
		})
		from = key.After(key.SpacePrefix(space))
	}
}

func (allSpacesLens) since(*table.Table) int64 { return 0 }

func (allSpacesLens) holds(*table.Row) bool { return true }

func (allSpacesLens) place(row *table.Row) string {
	path, _ := key.PathOf(row.Key)
	return path
}

func (allSpacesLens) looks(_ *table.Table, k *kinds.Kind) look {
	return look{space: true, shared: true, metadataOnly: k.Custom != nil, counts: placement.Never(k.Resource) == ""}
}

// restOf is the resource of a row, and the [NAMESPACE/]NAME in its key.
func restOf(row *table.Row) (key.Resource, string) {
	_, r, rest, _ := key.Split(row.Key)
	return r, rest
}

// spaceOf is the space that a row's key names.
func spaceOf(row *table.Row) key.Space {
	s, _, _, _ := key.Split(row.Key)
	return s
}
