package read

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// tableConvertor makes the tables of a view: the columns of the kind, followed by those of the view. A
// row has a cell for each column. It belongs to one request.
type tableConvertor struct {
	view *view
	// counts, if set, counts the states of a row's object at its locations.
	counts func(context.Context, *table.Row) (v1alpha1.Counts, error)
	// decodedBytes limits the size of the objects of a table that have to be decoded.
	decodedBytes int
}

// ConvertToTable makes the rows of a table one by one, so that only one decoded object is in
// memory, unless the client requests whole objects.
func (c *tableConvertor) ConvertToTable(ctx context.Context, obj runtime.Object, opts runtime.Object) (*metav1.Table, error) {
	options, _ := opts.(*metav1.TableOptions)
	if options == nil {
		options = &metav1.TableOptions{}
	}
	switch t := obj.(type) {
	case *list:
		return c.rows(ctx, t.Items, t.ListMeta, options)
	case *object:
		if c.view.kind.Rows != nil && isGet(ctx) {
			if table, err := c.own(t, options); table != nil || err != nil {
				return table, err
			}
		}
		return c.rows(ctx, []*object{t}, metav1.ListMeta{ResourceVersion: t.GetObjectMeta().GetResourceVersion()}, options)
	case opaque:
		return c.rows(ctx, []*object{t.object}, metav1.ListMeta{ResourceVersion: t.GetObjectMeta().GetResourceVersion()}, options)
	}
	// A bookmark has no cells, but clients read its metadata.
	converted, err := c.columns(ctx, c.view.newObject(), options)
	if err != nil {
		return nil, err
	}
	for i := range converted.Rows {
		converted.Rows[i].Object.Object = obj
		if err := c.addCells(ctx, &converted.Rows[i], nil); err != nil {
			return nil, err
		}
	}
	if m, err := meta.CommonAccessor(obj); err == nil {
		converted.ResourceVersion = m.GetResourceVersion()
	}
	return converted, nil
}

// isGet reports whether a request is for one object by its name.
func isGet(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.Verb == "get"
}

// own returns the table that an object is converted to; nil if its kind has no such conversion.
func (c *tableConvertor) own(o *object, options *metav1.TableOptions) (*metav1.Table, error) {
	decoded, err := o.decode()
	if err != nil {
		return nil, err
	}
	table, ok := c.view.kind.Rows(decoded)
	if !ok {
		return nil, nil
	}
	table.ResourceVersion = o.GetObjectMeta().GetResourceVersion()
	if options.NoHeaders {
		table.ColumnDefinitions = nil
	}
	accessor, err := meta.Accessor(decoded)
	if err != nil {
		return nil, fmt.Errorf("make the rows of %q: %w", o.row.Key, err)
	}
	shown := runtime.Object(meta.AsPartialObjectMetadata(accessor))
	if options.IncludeObject == metav1.IncludeObject {
		shown = decoded
	}
	for i := range table.Rows {
		table.Rows[i].Object.Object = shown
	}
	return table, nil
}

func (c *tableConvertor) rows(ctx context.Context, items []*object, m metav1.ListMeta, options *metav1.TableOptions) (*metav1.Table, error) {
	whole := options.IncludeObject == metav1.IncludeObject
	if limit := c.decodedBytes; whole && totalSize(items) > limit {
		return nil, tooLarge(totalSize(items), limit)
	}
	empty, err := c.columns(ctx, c.view.newList(), options)
	if err != nil {
		return nil, err
	}
	withoutHeaders := *options
	withoutHeaders.NoHeaders = true
	result := &metav1.Table{ListMeta: m, ColumnDefinitions: empty.ColumnDefinitions, Rows: []metav1.TableRow{}}
	size, limit := 0, c.decodedBytes
	for _, o := range items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		decoded, err := o.decode()
		if err != nil {
			return nil, err
		}
		one, err := c.columns(ctx, decoded, &withoutHeaders)
		if err != nil {
			return nil, err
		}
		for _, row := range one.Rows {
			if size += cellsSize(row.Cells); size > limit && c.view.kind.Custom != nil {
				return nil, tooLarge(size, limit)
			}
			if row.Object.Object = decoded; !whole {
				accessor, err := meta.Accessor(decoded)
				if err != nil {
					return nil, fmt.Errorf("make the row of %q: %w", o.row.Key, err)
				}
				row.Object.Object = meta.AsPartialObjectMetadata(accessor)
			}
			if err := c.addCells(ctx, &row, o.row); err != nil {
				return nil, err
			}
			result.Rows = append(result.Rows, row)
		}
	}
	return result, nil
}

// columns makes a table of the kind's own columns, and adds the definitions of the view's columns.
func (c *tableConvertor) columns(ctx context.Context, obj runtime.Object, options *metav1.TableOptions) (*metav1.Table, error) {
	convertor := c.view.kind.Columns
	if c.view.display.metadataOnly {
		convertor = rest.NewDefaultTableConvertor(c.view.kind.GVR.GroupResource())
	}
	made, err := convertor.ConvertToTable(ctx, obj, options)
	if err != nil || options.NoHeaders {
		return made, err
	}
	switch {
	case c.counted():
		made.ColumnDefinitions = slices.Concat(made.ColumnDefinitions, countColumns())
	case c.view.display.exportView && c.view.display.wide.Spaces:
		made.ColumnDefinitions = append(slices.Clip(made.ColumnDefinitions), spaceColumn())
	case c.view.display.reports:
		made.ColumnDefinitions = slices.Concat(made.ColumnDefinitions, reportColumns())
	}
	return made, nil
}

// addCells adds the cells of the view's columns; source is nil for a bookmark.
func (c *tableConvertor) addCells(ctx context.Context, to *metav1.TableRow, source *table.Row) error {
	if c.view.display.reports {
		to.Cells = append(slices.Clip(to.Cells), c.view.reports.cells(source)...)
		return nil
	}
	if c.view.display.exportView && c.view.display.wide.Spaces {
		space := ""
		if source != nil {
			space = string(spaceOf(source))
		}
		to.Cells = append(slices.Clip(to.Cells), space)
	}
	return c.addCounts(ctx, to, source)
}

// counted reports whether tables have countColumns.
func (c *tableConvertor) counted() bool { return c.view.display.counts && c.counts != nil }

// countColumns follow the kind's own columns, including those of -o wide. Thus the kind's columns
// stay at the positions that clients expect.
func countColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Placed", Type: "integer", Description: "The number of locations that the object is assigned to."},
		{Name: "Applied", Type: "integer", Description: "The number of those that have applied it as it is now."},
		{Name: "Healthy", Type: "integer", Description: "The number of those that have applied it and where it does what it asks for."},
		{Name: "Failed", Type: "integer", Description: "The number of those where it could not be applied."},
	}
}

// addCounts adds the cells of countColumns; source is nil for a bookmark.
func (c *tableConvertor) addCounts(ctx context.Context, to *metav1.TableRow, source *table.Row) (err error) {
	if !c.counted() {
		return nil
	}
	var n v1alpha1.Counts
	if source != nil {
		if n, err = c.counts(ctx, source); err != nil {
			return fmt.Errorf("count the locations of %q: %w", source.Key, err)
		}
	}
	to.Cells = append(slices.Clip(to.Cells), n.Assigned, n.Applied, n.Healthy, n.Failed)
	return nil
}

// cellsSize estimates the size of cells in bytes.
func cellsSize(cells []any) (n int) {
	for _, cell := range cells {
		s, _ := cell.(string)
		n += cellWeight + len(s)
	}
	return n
}

// cellWeight is the estimated size of a cell besides its text, in bytes.
const cellWeight = 16
