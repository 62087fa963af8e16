// Package tables serves lists that are requested as tables in JSON, as kubectl does. It is a fast path: without it,
// the Source makes tables of the same content. Rows are written one by one from the bytes of the objects'
// metadata. If the kind's columns can be read from bytes, too, nothing is decoded.
package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds/columns"
	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
)

// Source is the standard path: it lists objects, and makes the cells of a table.
type Source interface {
	rest.Lister
	rest.Watcher
	// Objects returns the objects of a list that List has returned.
	Objects(list runtime.Object) Objects
	// Columns makes a table of the kind's own columns, with the definitions of all columns.
	Columns(ctx context.Context, object runtime.Object, options *metav1.TableOptions) (*metav1.Table, error)
	// AppendCells appends the cells of the other columns.
	AppendCells(ctx context.Context, cells []any, o Object) ([]any, error)
	// Scanner makes the cells of the kind's own columns from JSON. It is nil if objects must be decoded.
	Scanner() columns.Scanner
	// CheckSize fails if the cells of a table have too many bytes.
	CheckSize(bytes int) error
	// IsPretty reports whether an encoder indents.
	IsPretty(id runtime.Identifier) bool
	// Buffers is the pool of buffers for writing.
	Buffers() *pieces.Buffers
}

// Objects are the objects of a list.
type Objects interface {
	Meta() metav1.ListMeta
	Len() int
	Object(i int) Object
}

// Object is one object of a list.
type Object interface {
	// Key is the key of the object in the table, for messages.
	Key() string
	// JSON returns the object, and whether the bytes are the stored ones.
	JSON() (value []byte, stored bool, err error)
	// Decode returns the decoded object.
	Decode() (runtime.Object, error)
	// WriteMetadata writes the metadata of the object. end is the offset at which they end in the stored bytes,
	// or 0 if it is unknown.
	WriteMetadata(end int, w io.Writer) error
}

// Handler serves lists of a source as tables. others serves all other requests. The handlers of
// k8s.io/apiserver take the request for a list in JSON.
func Handler(source Source, scope *handlers.RequestScope, others http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		options, version := tableRequest(req, scope)
		if options == nil || options.IncludeObject == metav1.IncludeObject {
			others(w, req)
			return
		}
		plain := req.WithContext(req.Context())
		plain.Header = req.Header.Clone()
		plain.Header.Set("Accept", runtime.ContentTypeJSON)
		handlers.ListResource(tabling{source, options, version}, source, scope, false, 0)(w, plain)
	}
}

// tableRequest returns the options and version of a request for a table in JSON. They are nil for
// other and for invalid requests, which the handlers answer.
func tableRequest(req *http.Request, scope *handlers.RequestScope) (*metav1.TableOptions, schema.GroupVersion) {
	negotiated, _, err := negotiation.NegotiateOutputMediaType(req, scope.Serializer, scope)
	if err != nil || negotiated.Convert == nil || negotiated.Convert.Kind != "Table" || negotiated.Accepted.MediaType != runtime.ContentTypeJSON {
		return nil, schema.GroupVersion{}
	}
	options := &metav1.TableOptions{}
	if err := metainternalversionscheme.ParameterCodec.DecodeParameters(req.URL.Query(), metav1.SchemeGroupVersion, options); err != nil ||
		len(validation.ValidateTableOptions(options)) > 0 {
		return nil, schema.GroupVersion{}
	}
	return options, negotiated.Convert.GroupVersion()
}

// indent is the indentation of pretty tables.
const indent = "  "

// tabling lists objects as the rows of a table.
type tabling struct {
	Source
	options *metav1.TableOptions
	version schema.GroupVersion
}

// List implements rest.Lister.
func (t tabling) List(ctx context.Context, opts *metainternalversion.ListOptions) (runtime.Object, error) {
	found, err := t.Source.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	items := t.Objects(found)
	rows := &rows{tabling: t, ListMeta: items.Meta(), items: items, ends: make([]rowEnds, 0, items.Len())}
	return rows, rows.fill(ctx)
}

// rows is a table whose cells are encoded in JSON; objects are encoded when it is written.
type rows struct {
	tabling
	metav1.ListMeta
	definitions []metav1.TableColumnDefinition
	items       Objects
	// cells has the cells of all objects, one object after the other.
	cells []byte
	ends  []rowEnds
}

// rowEnds are the offsets at which the cells of a row end, and the metadata of its stored object;
// 0 if the latter is unknown.
type rowEnds struct{ cells, metadata int }

var (
	_ runtime.Object          = &rows{}
	_ runtime.CacheableObject = &rows{}
)

// GetObjectKind returns a kind that ignores changes.
func (t *rows) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the rows, which are immutable.
func (t *rows) DeepCopyObject() runtime.Object { return t }

// GetObject returns the rows: they are encoded only in JSON.
func (t *rows) GetObject() runtime.Object { return t }

// fill encodes all cells, so that an invalid object fails the list instead of truncating it.
func (t *rows) fill(ctx context.Context) error {
	empty, err := t.Columns(ctx, t.NewList(), t.options)
	if err != nil {
		return err
	}
	t.definitions = empty.ColumnDefinitions
	scanner := t.Scanner()
	for i := range t.items.Len() {
		o := t.items.Object(i)
		if err := ctx.Err(); err != nil {
			return err
		}
		metadata, err := t.addRow(ctx, o, scanner)
		if err != nil {
			return fmt.Errorf("make the row of %q: %w", o.Key(), err)
		}
		if err := t.CheckSize(len(t.cells)); err != nil {
			return err
		}
		t.ends = append(t.ends, rowEnds{len(t.cells), metadata})
	}
	return nil
}

// addRow adds the cells of one object: those of the kind's own columns, and those of the view. It
// returns the offset at which the stored metadata ends.
func (t *rows) addRow(ctx context.Context, o Object, scanner columns.Scanner) (metadata int, err error) {
	t.cells = append(t.cells, '[')
	var others metav1.TableRow
	metadata, scanned, err := t.scan(o, scanner)
	if err != nil {
		return 0, err
	}
	if !scanned {
		if others, err = t.row(ctx, o); err != nil {
			return 0, err
		}
	}
	cells, err := t.AppendCells(ctx, others.Cells, o)
	if err != nil {
		return 0, err
	}
	for i, cell := range cells {
		if scanned || i > 0 {
			t.cells = append(t.cells, ',')
		}
		if t.cells, err = appendCell(t.cells, cell); err != nil {
			return 0, err
		}
	}
	t.cells = append(t.cells, ']')
	return metadata, nil
}

// scan adds the cells of the kind's own columns if they can be read from the object's JSON.
func (t *rows) scan(o Object, scanner columns.Scanner) (metadata int, ok bool, err error) {
	if scanner == nil {
		return 0, false, nil
	}
	value, stored, err := o.JSON()
	if err != nil {
		return 0, false, err
	}
	t.cells, metadata, ok = scanner.Scan(t.cells, value)
	if !stored { // the offset is not that of the stored value
		metadata = 0
	}
	return metadata, ok, nil
}

// row returns the cells of the kind's own columns.
func (t *rows) row(ctx context.Context, o Object) (metav1.TableRow, error) {
	decoded, err := o.Decode()
	if err != nil {
		return metav1.TableRow{}, err
	}
	made, err := t.Columns(ctx, decoded, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		return metav1.TableRow{}, err
	}
	if len(made.Rows) != 1 {
		return metav1.TableRow{}, fmt.Errorf("there are %d", len(made.Rows))
	}
	return made.Rows[0], nil
}

// appendCell appends a cell in JSON.
func appendCell(to []byte, cell any) ([]byte, error) {
	switch c := cell.(type) {
	case string:
		return gjson.AppendJSONString(to, c), nil
	case int64:
		return strconv.AppendInt(to, c, 10), nil
	}
	encoded, err := json.Marshal(cell)
	return append(to, encoded...), err
}

// CacheEncode writes the table row by row.
func (t *rows) CacheEncode(id runtime.Identifier, _ func(runtime.Object, io.Writer) error, w io.Writer) error {
	if t.IsPretty(id) {
		var plain, pretty bytes.Buffer
		if err := t.write(&plain); err != nil {
			return err
		}
		if err := json.Indent(&pretty, bytes.TrimSpace(plain.Bytes()), "", indent); err != nil {
			return fmt.Errorf("indent table: %w", err)
		}
		return pieces.WriteAll(w, pretty.Bytes())
	}
	buffer := t.Buffers().Get()
	defer t.Buffers().Put(buffer)
	p := pieces.New(w, buffer)
	if err := t.write(p); err != nil {
		return err
	}
	return p.Flush()
}

func (t *rows) write(w io.Writer) error {
	head, err := json.Marshal(struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ListMeta   `json:"metadata"`
		ColumnDefinitions []metav1.TableColumnDefinition `json:"columnDefinitions"`
	}{metav1.TypeMeta{Kind: "Table", APIVersion: t.version.String()}, t.ListMeta, t.definitions})
	if err != nil {
		return fmt.Errorf("encode table: %w", err)
	}
	if err := pieces.WriteAll(w, head[:1], head[1:len(head)-1], []byte(`,"rows":[`)); err != nil {
		return err
	}
	partial := []byte(`,"object":{"kind":"PartialObjectMetadata","apiVersion":"` + t.version.String() + `","metadata":`)
	before := []byte(`,{"cells":`)
	from := 0
	for i := range t.items.Len() {
		begin := before
		if i == 0 {
			begin = before[1:]
		}
		if err := pieces.WriteAll(w, begin, t.cells[from:t.ends[i].cells]); err != nil {
			return err
		}
		if err := t.writeObject(t.items.Object(i), t.ends[i].metadata, partial, w); err != nil {
			return err
		}
		from = t.ends[i].cells
	}
	return pieces.WriteAll(w, []byte("]}\n"))
}

// writeObject writes the object of a row and the end of the row.
func (t *rows) writeObject(o Object, end int, partial []byte, w io.Writer) error {
	if t.options.IncludeObject == metav1.IncludeNone {
		return pieces.WriteAll(w, []byte(`,"object":null}`))
	}
	if err := pieces.WriteAll(w, partial); err != nil {
		return err
	}
	if err := o.WriteMetadata(end, w); err != nil {
		return err
	}
	return pieces.WriteAll(w, []byte("}}"))
}
