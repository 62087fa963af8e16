package kinds

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// printer makes rows of objects. The zero printer shows name and age.
type printer struct {
	columns []metav1.TableColumnDefinition
	// cells has one cell per column. now is when the table is made: ages are
	// part of a table, not of an object.
	cells func(obj runtime.Object, now time.Time) ([]any, error)
	// now is the clock; nil for the real one.
	now func() time.Time
}

// printed is a printer over objects of one Go type.
func printed[T any](columns []metav1.TableColumnDefinition, cells func(obj *T, now time.Time) []any) printer {
	return printer{columns: columns, cells: func(obj runtime.Object, now time.Time) ([]any, error) {
		typed, ok := any(obj).(*T)
		if !ok {
			return nil, fmt.Errorf("make a table row: got %T, want %T", obj, typed)
		}
		return cells(typed, now), nil
	}}
}

// ConvertToTable makes a table of an object or a list of objects.
func (p printer) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if opt, ok := options.(*metav1.TableOptions); !ok || opt == nil || !opt.NoHeaders {
		table.ColumnDefinitions = p.definitions()
	}
	now := time.Now
	if p.now != nil {
		now = p.now
	}
	at := now()
	row := func(obj runtime.Object) error {
		cells, err := p.row(obj, at)
		if err != nil {
			return err
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: obj}})
		return nil
	}
	if !meta.IsListType(object) {
		if m, err := meta.CommonAccessor(object); err == nil {
			table.ResourceVersion = m.GetResourceVersion()
		}
		return table, row(object)
	}
	if m, err := meta.ListAccessor(object); err == nil {
		table.ResourceVersion = m.GetResourceVersion()
		table.Continue = m.GetContinue()
		table.RemainingItemCount = m.GetRemainingItemCount()
	}
	return table, meta.EachListItem(object, row)
}

func (p printer) definitions() []metav1.TableColumnDefinition {
	if p.columns == nil {
		return plainColumns()
	}
	return p.columns
}

func (p printer) row(obj runtime.Object, now time.Time) ([]any, error) {
	if p.cells != nil {
		return p.cells(obj, now)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("make a table row: %w", err)
	}
	return []any{m.GetName(), age(m.GetCreationTimestamp(), now)}, nil
}

func plainColumns() []metav1.TableColumnDefinition {
	return cols("Name", "Age")
}

// cols defines columns in a short form: "Name", "Node+" for those shown
// with -o wide only, "Desired#" for integers, "Suspend?" for booleans.
func cols(short ...string) []metav1.TableColumnDefinition {
	defs := make([]metav1.TableColumnDefinition, 0, len(short))
	for _, s := range short {
		d := metav1.TableColumnDefinition{Type: "string"}
		if n := len(s) - 1; s[n] == '+' {
			d.Priority, s = 1, s[:n]
		}
		switch n := len(s) - 1; s[n] {
		case '#':
			d.Type, s = "integer", s[:n]
		case '?':
			d.Type, s = "boolean", s[:n]
		}
		d.Name = s
		switch s {
		case "Name":
			d.Format = "name"
			d.Description = metav1.ObjectMeta{}.SwaggerDoc()["name"]
		case "Age":
			d.Description = metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]
		}
		defs = append(defs, d)
	}
	return defs
}

// age is how long ago a time was, as tables show it.
func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}
