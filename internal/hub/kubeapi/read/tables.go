package read

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

	"orrery.dev/orrery/internal/hub/kinds/columns"
)

// tabled serves lists that are requested as tables in JSON, as kubectl does. Rows are written one
// by one from the bytes of the objects' metadata. If the kind's columns can be read from bytes,
// too, nothing is decoded. The handlers take the request for a list in JSON.
func tabled(r *reader, scope *handlers.RequestScope, others http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		options, version := tableRequest(req, scope)
		if options == nil || options.IncludeObject == metav1.IncludeObject {
			others(w, req)
			return
		}
		plain := req.WithContext(req.Context())
		plain.Header = req.Header.Clone()
		plain.Header.Set("Accept", runtime.ContentTypeJSON)
		handlers.ListResource(tabling{r, options, version}, r, scope, false, 0)(w, plain)
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

// tabling lists objects as the rows of a table.
type tabling struct {
	*reader
	options *metav1.TableOptions
	version schema.GroupVersion
}

// List implements rest.Lister.
func (t tabling) List(ctx context.Context, opts *metainternalversion.ListOptions) (runtime.Object, error) {
	found, err := t.reader.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	l := found.(*list)
	rows := &rows{tabling: t, ListMeta: l.ListMeta, items: l.Items, ends: make([]rowEnds, 0, len(l.Items))}
	return rows, rows.fill(ctx)
}

// rows is a table whose cells are encoded in JSON; objects are encoded when it is written.
type rows struct {
	tabling
	metav1.ListMeta
	definitions []metav1.TableColumnDefinition
	items       []*object
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
	empty, err := t.columns(ctx, t.view.newList(), t.options)
	if err != nil {
		return err
	}
	t.definitions = empty.ColumnDefinitions
	scanner, _ := t.view.kind.Columns.(columns.Scanner)
	if t.view.display.metadataOnly || t.view.display.reports {
		scanner = nil
	}
	for _, o := range t.items {
		if err := ctx.Err(); err != nil {
			return err
		}
		metadata, err := t.addRow(ctx, o, scanner)
		if err != nil {
			return fmt.Errorf("make the row of %q: %w", o.row.Key, err)
		}
		if limit := t.decodedBytes; len(t.cells) > limit && t.view.kind.Custom != nil {
			return tooLarge(len(t.cells), limit)
		}
		t.ends = append(t.ends, rowEnds{len(t.cells), metadata})
	}
	return nil
}

// addRow adds the cells of one object: those of the kind's own columns, and those of the view. It
// returns the offset at which the stored metadata ends.
func (t *rows) addRow(ctx context.Context, o *object, scanner columns.Scanner) (metadata int, err error) {
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
	if err := t.addCells(ctx, &others, o.row); err != nil {
		return 0, err
	}
	for i, cell := range others.Cells {
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
func (t *rows) scan(o *object, scanner columns.Scanner) (metadata int, ok bool, err error) {
	if scanner == nil {
		return 0, false, nil
	}
	d, _, err := o.document()
	if err != nil {
		return 0, false, err
	}
	t.cells, metadata, ok = scanner.Scan(t.cells, d.value)
	if &d.value[0] != &o.row.Value[0] { // the offset is not that of the stored value
		metadata = 0
	}
	return metadata, ok, nil
}

// row returns the cells of the kind's own columns.
func (t *rows) row(ctx context.Context, o *object) (metav1.TableRow, error) {
	decoded, err := o.decode()
	if err != nil {
		return metav1.TableRow{}, err
	}
	made, err := t.columns(ctx, decoded, &metav1.TableOptions{NoHeaders: true})
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
	if t.format.shape.catalog[id].form == formPretty {
		var plain, pretty bytes.Buffer
		if err := t.write(&plain); err != nil {
			return err
		}
		if err := json.Indent(&pretty, bytes.TrimSpace(plain.Bytes()), "", prettyIndent); err != nil {
			return fmt.Errorf("indent table: %w", err)
		}
		return writeAll(w, pretty.Bytes())
	}
	buffer := t.format.buffers.Get()
	defer t.format.buffers.Put(buffer)
	p := &pieces{to: w, buffer: buffer}
	if err := t.write(p); err != nil {
		return err
	}
	return p.flush()
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
	if err := writeAll(w, head[:1], head[1:len(head)-1], []byte(`,"rows":[`)); err != nil {
		return err
	}
	partial := []byte(`,"object":{"kind":"PartialObjectMetadata","apiVersion":"` + t.version.String() + `","metadata":`)
	before := []byte(`,{"cells":`)
	from := 0
	for i, o := range t.items {
		begin := before
		if i == 0 {
			begin = before[1:]
		}
		if err := writeAll(w, begin, t.cells[from:t.ends[i].cells]); err != nil {
			return err
		}
		if err := t.writeObject(o, t.ends[i].metadata, partial, w); err != nil {
			return err
		}
		from = t.ends[i].cells
	}
	return writeAll(w, []byte("]}\n"))
}

// writeObject writes the object of a row and the end of the row.
func (t *rows) writeObject(o *object, end int, partial []byte, w io.Writer) error {
	if t.options.IncludeObject == metav1.IncludeNone {
		return writeAll(w, []byte(`,"object":null}`))
	}
	if err := writeAll(w, partial); err != nil {
		return err
	}
	if err := o.writeMetadata(end, w); err != nil {
		return err
	}
	return writeAll(w, []byte("}}"))
}
