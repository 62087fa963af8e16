package read

import (
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/kinds/columns"
	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
	"orrery.dev/orrery/internal/hub/kubeapi/read/tables"
)

// tableSource is a reader whose lists package tables serves.
type tableSource struct{ *reader }

var _ tables.Source = tableSource{}

// Objects implements tables.Source.
func (tableSource) Objects(l runtime.Object) tables.Objects { return listedObjects{l.(*list)} }

// Columns implements tables.Source.
func (s tableSource) Columns(ctx context.Context, object runtime.Object, options *metav1.TableOptions) (*metav1.Table, error) {
	return s.columns(ctx, object, options)
}

// AppendCells implements tables.Source.
func (s tableSource) AppendCells(ctx context.Context, cells []any, o tables.Object) ([]any, error) {
	row := metav1.TableRow{Cells: cells}
	err := s.addCells(ctx, &row, o.(listedObject).row)
	return row.Cells, err
}

// Scanner implements tables.Source.
func (s tableSource) Scanner() columns.Scanner {
	if s.reader.view.display.metadataOnly || s.reader.view.display.reports {
		return nil
	}
	scanner, _ := s.reader.view.kind.Columns.(columns.Scanner)
	return scanner
}

// CheckSize implements tables.Source. Only CRDs define columns whose size has no other limit.
func (s tableSource) CheckSize(bytes int) error {
	if bytes > s.decodedBytes && s.reader.view.kind.Custom != nil {
		return tooLarge(bytes, s.decodedBytes)
	}
	return nil
}

// IsPretty implements tables.Source.
func (s tableSource) IsPretty(id runtime.Identifier) bool {
	return s.format.shape.catalog[id].form == formPretty
}

// Buffers implements tables.Source.
func (s tableSource) Buffers() *pieces.Buffers { return &s.format.buffers }

// listedObjects are the objects of a list.
type listedObjects struct{ list *list }

// Meta implements tables.Objects.
func (l listedObjects) Meta() metav1.ListMeta { return l.list.ListMeta }

// Len implements tables.Objects.
func (l listedObjects) Len() int { return len(l.list.Items) }

// Object implements tables.Objects.
func (l listedObjects) Object(i int) tables.Object { return listedObject{l.list.Items[i]} }

// listedObject is an object of a list.
type listedObject struct{ *object }

// Key implements tables.Object.
func (o listedObject) Key() string { return o.row.Key }

// JSON implements tables.Object.
func (o listedObject) JSON() (value []byte, stored bool, err error) {
	d, _, err := o.document()
	if err != nil {
		return nil, false, err
	}
	return d.value, &d.value[0] == &o.row.Value[0], nil
}

// Decode implements tables.Object.
func (o listedObject) Decode() (runtime.Object, error) { return o.decode() }

// WriteMetadata implements tables.Object.
func (o listedObject) WriteMetadata(end int, w io.Writer) error { return o.writeMetadata(end, w) }
