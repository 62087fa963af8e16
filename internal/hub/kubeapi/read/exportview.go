package read

import (
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// ExportViewScope selects the objects of an export view that a request may read.
type ExportViewScope struct {
	// ID identifies the APIExport or the APIExportView.
	ID key.ExportView
	// Space is the space whose objects are shown under their own names. With key.AllSpaces, names
	// are wide, and annotations have the space and the name there.
	Space key.Space
	// Clustered are the cluster-scoped kinds whose names in owner references are wide, too: the
	// built-in kinds, and those of the export.
	Clustered []schema.GroupKind
	// Hidden are the spaces whose objects the request may not read, each with the APIBinding that
	// forbids it, at revision DecidedAt. A watch ends when one of these changes.
	Hidden    map[key.Space]*table.Entry
	DecidedAt int64
}

// ExportView is the view of the objects that consumers of an APIExport have of its kinds, and of
// objects of the kinds that it claims, where consumers have accepted this.
func ExportView(scope ExportViewScope) Lens {
	l := exportLens{ExportViewScope: scope}
	if scope.Space == key.AllSpaces {
		l.Space, l.wide.Spaces = "", true
	}
	return l
}

// exportLens has an empty space for all.
type exportLens struct {
	ExportViewScope
	wide key.Wide
}

func (l exportLens) String() string {
	s := l.Space
	if l.wide.Spaces {
		s = key.AllSpaces
	}
	return route.ExportViewRoot(l.ID, s).String()
}

// target returns the query with the names that objects have in their space; ok is false if no
// object can have such names.
func (l exportLens) target(q query) (c key.Called, ok bool) {
	if c, ok = l.wide.Split(q.namespaced, q.namespace, q.name); ok && !l.wide.Spaces {
		c.Space = l.Space
	}
	return c, ok
}

func (l exportLens) topics(q query) []table.Topic {
	c, ok := l.target(q)
	if !ok {
		c.Space = l.Space
	}
	return []table.Topic{table.ExportViewTopic(l.ID, c.Space, q.resource)}
}

// now skips other spaces and resources with one lookup per space.
func (l exportLens) now(t *table.Table, q query) state {
	c, ok := l.target(q)
	var prefix string
	if ok && c.Space != "" {
		prefix = key.ResourcePrefix(c.Space, q.resource)
		if q.namespaced && c.Namespace != "" {
			prefix = key.NamespacePrefix(c.Space, q.resource, c.Namespace)
		}
	}
	var rows []*table.Row
	rev := t.AscendExportView(l.ID, prefix, func(row *table.Row) (from string, more bool) {
		if !ok || !strings.HasPrefix(row.Key, prefix) {
			return "", false
		}
		if r, _ := restOf(row); r != q.resource {
			return nextOf(row, q.resource), true
		}
		if q.matches(row.Key) && l.contains(row) {
			rows = append(rows, row)
		}
		return "", true
	})
	return listed(l, rev, rows)
}

// contains reports whether a row is in the export view, in the space, and not hidden.
func (l exportLens) contains(row *table.Row) bool {
	s := spaceOf(row)
	_, hidden := l.Hidden[s]
	return !hidden && (l.Space == "" || l.Space == s) && row.IsShownIn(l.ID)
}

// place is the path of the object: rows are in its order.
func (exportLens) place(row *table.Row) string { return allSpacesLens{}.place(row) }

func (l exportLens) since(t *table.Table) int64 {
	rev := max(Space(l.ID.Space).since(t), createdAt(t, l.ID.Key()))
	if l.ID.View {
		rev = max(rev, createdAt(t, exportOf(t, l.ID)))
	}
	if l.Space != "" {
		rev = max(rev, Space(l.Space).since(t))
	}
	return rev
}

// exportOf returns the key of the APIExport of an export view; empty if the view does not exist.
func exportOf(t *table.Table, f key.ExportView) string {
	if !f.View {
		return f.Key()
	}
	row, _ := t.Get(f.Key())
	if row == nil {
		return ""
	}
	return key.ExportView{Space: f.Space, Name: gjson.GetBytes(row.Value, "spec.export").String()}.Key()
}

func (l exportLens) display(*table.Table, *kinds.Kind) display {
	return display{exportView: true, wide: l.wide, clustered: clusteredOf(l.Clustered)}
}
