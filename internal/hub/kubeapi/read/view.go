package read

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// view has the objects of one kind through a lens: the rows that are its objects, and their content. An
// object that can't be rendered for a location is not in its view. It belongs to one request.
type view struct {
	table    *table.Table
	renderer *render.Renderer
	// addFields, if set, returns the bytes of a row that clients read instead of the stored ones, or nil.
	addFields func(*table.Row) []byte

	lens    Lens
	kind    *kinds.Kind
	display display
	// reports composes the objects if rows are composed of reports.
	reports *reportComposer
	// added is how many bytes conversion by the current CRD has added to stored objects.
	added atomic.Int64
}

func newView(c *Config, l Lens, k *kinds.Kind) *view {
	v := &view{table: c.Table, renderer: c.Renderer, addFields: c.Complete, lens: l, kind: k, display: l.display(c.Table, k)}
	v.reports = &reportComposer{table: c.Table, renderer: c.Renderer, kind: k, wide: v.display.wide}
	return v
}

// newObject returns an empty object.
func (v *view) newObject() runtime.Object {
	if v.display.metadataOnly {
		return &metav1.PartialObjectMetadata{}
	}
	return v.kind.New()
}

// newList returns an empty list.
func (v *view) newList() runtime.Object {
	if v.display.metadataOnly {
		return &metav1.PartialObjectMetadataList{}
	}
	return v.kind.NewList()
}

// query returns the query of a request's path.
func (v *view) query(ctx context.Context, name string) query {
	q := query{resource: v.kind.Resource, namespaced: v.kind.Namespaced, name: name, placing: v.display.placing}
	if q.namespaced {
		q.namespace = request.NamespaceValue(ctx)
	}
	if v.display.exportView {
		q.wide = v.display.wide
	}
	if v.display.reports { // reports name the resource that is served, not the one that is stored
		q.resource = key.NewResource(v.kind.GVR.Group, v.kind.GVR.Resource)
	}
	return q
}

// shown reports whether a row is a selected object of the view. An object that can't be rendered
// for a location is not in its view: the location keeps the copy that it has, and other objects are
// not affected.
func (v *view) shown(row *table.Row, s selection) bool {
	if row == nil || !v.lens.contains(row) || v.display.reports && !v.reports.inVersion(row) {
		return false
	}
	selectable := row
	if s.fields != nil {
		selectable = v.today(row)
	}
	if !v.selects(s, selectable) {
		return false
	}
	if v.display.location == "" {
		return true
	}
	_, err := v.digest(row)
	return err == nil
}

// complete returns the row that clients read: converted by the current CRD, with computed fields.
func (v *view) complete(row *table.Row) *table.Row {
	row = v.today(row)
	if row == nil || v.display.reports {
		return row
	}
	var value []byte
	if v.addFields != nil {
		value = v.addFields(row)
	}
	if v.display.foreign {
		if value == nil {
			value = row.Value
		}
		value = withoutOthers(value)
	}
	if value == nil {
		return row
	}
	return &table.Row{Entry: table.NewEntry(row.Key, value, row.CreateRev, row.ModRev), In: row.In}
}

// selects reports whether a selection matches a row's object in the view.
func (v *view) selects(s selection, row *table.Row) bool {
	if s.everything() {
		return true
	}
	if v.display.reports {
		return v.reports.selects(s, row)
	}
	l, value, objectLabels := v.display, row.Value, row.Meta.Labels
	if l.location != "" && (s.fields != nil || marked(objectLabels) || classAt(row, l.location) != nil) {
		made, err := v.rendered(row)
		if err != nil {
			return false
		}
		value, objectLabels = made.Object, table.NewEntry(row.Key, made.Object, 0, 0).Meta.Labels
	}
	var shown labels.Labels = objectLabels
	if l.location != "" {
		shown = markedLabels{objectLabels, spaceOf(row), l.mark}
	}
	if s.labels != nil && !s.labels.Matches(shown) {
		return false
	}
	if s.fields == nil {
		return true
	}
	f := fieldsOf{kind: v.kind, value: func() []byte { return value }}
	f.namespace, f.name = l.called(row)
	return s.fields.Matches(&f)
}

// today returns a row as the current CRD of its kind converts it. Rows of built-in kinds, and rows
// for locations, are returned unchanged. A row for which conversion changes nothing records that.
func (v *view) today(row *table.Row) *table.Row {
	custom := v.kind.Custom
	if custom == nil || row == nil || v.display.location != "" || v.display.reports || v.display.metadataOnly {
		return row
	}
	if row.AsWritten.Load() == custom.ID() {
		return row
	}
	value, err := custom.Today(row.Value)
	if err != nil {
		return row // rows that can't be converted are served as stored
	}
	if value == nil {
		row.AsWritten.Store(custom.ID())
		return row
	}
	v.added.Add(max(0, int64(len(value)-len(row.Value))))
	return &table.Row{Entry: table.NewEntry(row.Key, value, row.CreateRev, row.ModRev), In: row.In}
}

// rendered returns a row's object as rendered for the view's location.
func (v *view) rendered(row *table.Row) (render.Rendered, error) {
	return v.renderer.Render(row.Entry, classAt(row, v.display.location))
}

// digest returns the digest of the rendered object.
func (v *view) digest(row *table.Row) (wire.Sum, error) {
	return v.renderer.Digest(row.Entry, classAt(row, v.display.location))
}
