package read

import (
	"slices"
	"strings"
	"unique"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// OnShelf says what a view of a shelf is of.
type OnShelf struct {
	Shelf key.Shelf
	// Space is the one whose objects are shown, as they are there. With key.AllSpaces names
	// are made wide, and annotations name the space and what the object is called in it.
	Space key.Space
	// Clustered are the kinds in no namespace whose names, in references to owners, are made
	// wide, too: the built-in ones, and those of the export.
	Clustered []schema.GroupKind
	// Hidden are spaces whose objects of the kind are not shown for what is asked, with the
	// APIBinding that says so, in the state of a revision. A watch ends when one of these
	// changes.
	Hidden map[key.Space]*table.Entry
	Judged int64
}

// Shelf is the view of what is on a shelf: the objects that consumers of an APIExport have of
// its kinds, and those that they let its provider see.
func Shelf(of OnShelf) Lens {
	l := shelfLens{OnShelf: of}
	if of.Space == key.AllSpaces {
		l.Space, l.wide.Spaces = "", true
	}
	return l
}

// shelfLens has an empty space for all.
type shelfLens struct {
	OnShelf
	wide key.Wide
}

func (l shelfLens) String() string {
	s := l.Space
	if l.wide.Spaces {
		s = key.AllSpaces
	}
	return route.ShelfRoot(l.Shelf, s).String()
}

// asked is what a query asks for, by the names that objects have in their space; ok is false
// if nothing has such names.
func (l shelfLens) asked(q query) (c key.Called, ok bool) {
	if c, ok = l.wide.Split(q.namespaced, q.namespace, q.name); ok && !l.wide.Spaces {
		c.Space = l.Space
	}
	return c, ok
}

func (l shelfLens) topics(q query) []table.Topic {
	c, ok := l.asked(q)
	if !ok {
		c.Space = l.Space
	}
	return []table.Topic{table.ExportViewTopic(l.Shelf, c.Space, q.resource)}
}

// now reads no rows of other spaces or resources but the first of each space.
func (l shelfLens) now(t *table.Table, q query) state {
	c, ok := l.asked(q)
	var prefix string
	if ok && c.Space != "" {
		prefix = key.ResourcePrefix(c.Space, q.resource)
		if q.namespaced && c.Namespace != "" {
			prefix = key.NamespacePrefix(c.Space, q.resource, c.Namespace)
		}
	}
	var rows []*table.Row
	rev := t.AscendExportView(l.Shelf, prefix, func(row *table.Row) (from string, more bool) {
		if !ok || !strings.HasPrefix(row.Key, prefix) {
			return "", false
		}
		if r, _ := restOf(row); r != q.resource {
			return nextOf(row, q.resource), true
		}
		if q.about(row.Key) && l.holds(row) {
			rows = append(rows, row)
		}
		return "", true
	})
	return listed(l, rev, rows)
}

// holds says whether a row is on the shelf, of the space, and not of one that is hidden.
func (l shelfLens) holds(row *table.Row) bool {
	s := spaceOf(row)
	_, hidden := l.Hidden[s]
	return !hidden && (l.Space == "" || l.Space == s) && row.IsShownIn(l.Shelf)
}

// place is the path, in whose order rows are.
func (shelfLens) place(row *table.Row) string { return allSpacesLens{}.place(row) }

func (l shelfLens) since(t *table.Table) int64 {
	rev := max(Space(l.Shelf.Space).since(t), createdAt(t, l.Shelf.Key()))
	if l.Shelf.View {
		rev = max(rev, createdAt(t, exportOf(t, l.Shelf)))
	}
	if l.Space != "" {
		rev = max(rev, Space(l.Space).since(t))
	}
	return rev
}

// exportOf is the key of the APIExport that a shelf is of; empty if nobody knows.
func exportOf(t *table.Table, f key.Shelf) string {
	if !f.View {
		return f.Key()
	}
	row, _ := t.Get(f.Key())
	if row == nil {
		return ""
	}
	return key.Shelf{Space: f.Space, Name: gjson.GetBytes(row.Value, "spec.export").String()}.Key()
}

func (l shelfLens) looks(*table.Table, *kinds.Kind) look {
	return look{shelf: true, wide: l.wide, clustered: clusteredOf(l.Clustered)}
}

// clustered are kinds as a text, so that what they are known by can be compared.
type clustered = unique.Handle[string]

func clusteredOf(all []schema.GroupKind) clustered {
	names := make([]string, 0, len(all))
	for _, k := range all {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return unique.Make("\n" + strings.Join(slices.Compact(names), "\n") + "\n")
}

// isClustered says whether a reference to an owner is to one of some kinds.
func isClustered(all clustered, owner gjson.Result) bool {
	if all == (clustered{}) {
		return false
	}
	group, _ := key.SplitVersion(owner.Get("apiVersion").String())
	k := schema.GroupKind{Group: group, Kind: owner.Get("kind").String()}
	return strings.Contains(all.Value(), "\n"+k.String()+"\n")
}
