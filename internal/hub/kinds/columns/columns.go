// Package columns makes the tables that clients print of objects, in the columns
// that users know from kube-apiserver. Only that server's own types have its
// printers, so the ones here are written over the API's. Where a user left out
// what Kubernetes would have defaulted, tables show the default: that is what
// it will be at a location.
//
// It must not know how a kind is served, nor act on what an object says.
package columns

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// printer makes rows of objects. One without cells shows name and age.
type printer struct {
	columns []metav1.TableColumnDefinition
	// cells has one cell per column. now is when the table is made: ages are
	// part of a table, not of an object.
	cells func(obj runtime.Object, now time.Time) ([]any, error)
	// scan appends the same cells by the JSON of an object, unless that fails; nil: they can't be had
	// without decoding it.
	scan func(object, to []byte, now time.Time) (s scan, cells []byte)
}

// table makes tables with a printer, by a clock.
type table struct {
	printer
	now func() time.Time
}

var _ rest.TableConvertor = table{}

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

// createdPrinter shows the time of creation where others show an age, as Kubernetes does
// for kinds without columns of their own.
func createdPrinter() printer {
	columns := cols("Name", "Created At")
	columns[1].Type = "date"
	return printer{columns: columns, cells: func(obj runtime.Object, _ time.Time) ([]any, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, fmt.Errorf("make a table row: %w", err)
		}
		return []any{m.GetName(), m.GetCreationTimestamp().UTC().Format(time.RFC3339)}, nil
	}}
}

// ConvertToTable makes a table of an object or a list of objects.
func (t table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	made := &metav1.Table{}
	if opt, ok := options.(*metav1.TableOptions); !ok || opt == nil || !opt.NoHeaders {
		made.ColumnDefinitions = t.definitions()
	}
	now := t.now()
	row := func(obj runtime.Object) error {
		cells, err := t.row(obj, now)
		if err != nil {
			return err
		}
		made.Rows = append(made.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: obj}})
		return nil
	}
	if !meta.IsListType(object) {
		if m, err := meta.CommonAccessor(object); err == nil {
			made.ResourceVersion = m.GetResourceVersion()
		}
		return made, row(object)
	}
	if m, err := meta.ListAccessor(object); err == nil {
		made.ResourceVersion = m.GetResourceVersion()
		made.Continue = m.GetContinue()
		made.RemainingItemCount = m.GetRemainingItemCount()
	}
	return made, meta.EachListItem(object, row)
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
