package read

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/jsonscan"
)

// object is one row at a resourceVersion, as a view displays it. Handlers take it for an API
// object. It is decoded only if they need more than its bytes or its metadata. It belongs to one
// request.
type object struct {
	format *format
	row    *table.Row
	rev    int64
	meta   *metav1.ObjectMeta // decoded on demand
}

var (
	_ runtime.Object            = &object{}
	_ runtime.CacheableObject   = &object{}
	_ metav1.ObjectMetaAccessor = &object{}
)

// object returns a row as it is displayed in a state of a revision.
func (f *format) object(row *table.Row, rev int64) *object {
	if !f.view.display.listRevision {
		rev = row.ModRev
	}
	return f.objectAt(row, rev)
}

// objectAt returns a row with a revision as its resourceVersion.
func (f *format) objectAt(row *table.Row, rev int64) *object {
	return &object{format: f, row: f.view.complete(row), rev: rev}
}

// GetObjectKind returns a kind that ignores changes.
func (o *object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the decoded object, which callers may change.
func (o *object) DeepCopyObject() runtime.Object { return o.GetObject() }

// GetObject returns the decoded object.
func (o *object) GetObject() runtime.Object {
	decoded, err := o.decode()
	if err != nil {
		return opaque{o}
	}
	return decoded
}

// GetObjectMeta decodes only the metadata. It never returns nil: a value that can't be parsed has
// empty metadata, and fails when it is encoded.
func (o *object) GetObjectMeta() metav1.Object {
	if o.meta == nil {
		o.meta = &metav1.ObjectMeta{}
		if err := o.readMeta(o.meta); err != nil {
			o.meta = &metav1.ObjectMeta{}
		}
	}
	return o.meta
}

func (o *object) readMeta(into *metav1.ObjectMeta) error {
	d, a, err := o.document()
	if err != nil {
		return err
	}
	metadata := gjson.GetBytes(d.value, "metadata").Raw
	if err := json.Unmarshal([]byte(metadata), into); err != nil {
		return fmt.Errorf("read metadata of %q: %w", o.row.Key, err)
	}
	a.addTo(into)
	return nil
}

// document returns the object's JSON and what the view adds to it.
func (o *object) document() (document, addition, error) {
	a := addition{rev: o.rev}
	l := o.format.view.display
	switch {
	case l.reports:
		d, err := parse(o.format.view.reports.show(o.row, o.format.view.reports.stale(o.row.In.(*reported).location)))
		return d, a, err
	case l.location != "":
		r, err := o.format.view.rendered(o.row)
		if err != nil {
			return document{}, a, err
		}
		a.labels, a.annotations = l.ownership(o.row, o.format.view.kind.GVK.Kind)
		shown, err := l.placed(o.row, r.Object)
		if err != nil {
			return document{}, a, fmt.Errorf("show %q: %w", o.row.Key, err)
		}
		d, err := parse(shown)
		return d, a, err
	case l.exportView && l.wide.Spaces:
		value, err := l.widened(o.row)
		if err != nil {
			return document{}, a, err
		}
		d, err := parse(value)
		return d, a, err
	case l.space:
		a.annotations = []field{{v1alpha1.SpaceAnnotation, string(spaceOf(o.row))}}
		value, err := withoutSpace(o.row.Value)
		if err != nil {
			return document{}, a, fmt.Errorf("show %q: %w", o.row.Key, err)
		}
		if len(value) != len(o.row.Value) {
			d, err := parse(value)
			return d, a, err
		}
	}
	d, err := stored(o.row.Entry)
	return d, a, err
}

// asServed reports whether the stored bytes are in the version that is served.
func (o *object) asServed() bool {
	s := o.format.shape
	if o.format.view.display.metadataOnly || o.format.view.display.reports {
		return true
	}
	if s.checkVersion {
		return gjson.GetBytes(o.row.Value, "apiVersion").String() == s.apiVersion
	}
	return s.asStored
}

// decode returns the object in the hub version of its kind.
func (o *object) decode() (runtime.Object, error) {
	d, a, err := o.document()
	if err != nil {
		return nil, err
	}
	if o.format.view.display.metadataOnly {
		partial := &metav1.PartialObjectMetadata{}
		partial.SetGroupVersionKind(metadataGVK())
		return partial, o.readMeta(&partial.ObjectMeta)
	}
	codec := o.format.view.kind.StorageCodec
	if (o.format.view.display.location != "" || o.format.view.display.reports) && o.format.view.kind.Custom != nil {
		codec = unstructured.UnstructuredJSONScheme // agents get custom resources as stored
	}
	decoded, err := runtime.Decode(codec, d.value)
	if err != nil && o.format.view.display.reports { // a malformed report must not fail the list
		decoded, err = runtime.Decode(codec, o.format.view.reports.bare(d.value))
	}
	if err != nil {
		return nil, fmt.Errorf("decode %q: %w", o.row.Key, err)
	}
	m, err := meta.Accessor(decoded)
	if err != nil {
		return nil, fmt.Errorf("decode %q: %w", o.row.Key, err)
	}
	a.addTo(m)
	return decoded, nil
}

// writeJSON writes the object as clients of the view see it. It must be in the served version.
func (o *object) writeJSON(w io.Writer) error { return o.writeWithout(nil, w) }

// writeWithout writes the object, without head if it starts with head.
func (o *object) writeWithout(head []byte, w io.Writer) error {
	d, a, err := o.document()
	if err != nil {
		return err
	}
	if !o.format.view.display.metadataOnly {
		return d.without(head).write(w, a)
	}
	if err := pieces.WriteAll(w, []byte(`{`), []byte(`"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`)); err != nil {
		return err
	}
	if err := o.writeMetadata(0, w); err != nil {
		return err
	}
	return pieces.WriteAll(w, []byte("}"))
}

// CacheEncode writes the object's own bytes if the encoder would write the same ones. Otherwise it
// passes the decoded object to the encoder.
func (o *object) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	e := o.format.shape.catalog[id]
	switch {
	case e.form == formJSON && o.asServed():
		return o.encodeJSON(e, w)
	case e.form == formPretty && o.asServed():
		return o.encodePretty(w)
	case e.form == formUnknown && transforms(id):
		return encode(opaque{o}, w)
	case (e.form == formDecoded || e.form == formProtobuf) && e.event != "" && !o.format.view.display.reports:
		return o.encodeShared(id, encode, w)
	case e.form == formUnknown:
		o.format.fallbacks.Add(1)
	}
	made, err := o.encodable(e.form)
	if err != nil {
		return err
	}
	return encode(made, w)
}

// encodeJSON writes one value and a newline, as the encoders do. It writes an event with one call
// of Write, because each Write is a message of a WebSocket.
func (o *object) encodeJSON(e encoding, w io.Writer) error {
	if e.event == "" {
		if err := o.writeJSON(w); err != nil {
			return err
		}
		return pieces.WriteAll(w, []byte("\n"))
	}
	buffer := o.format.buffers.Get()
	defer o.format.buffers.Put(buffer)
	buffer.WriteString(`{"type":"`)
	buffer.WriteString(string(e.event))
	buffer.WriteString(`","object":`)
	if err := o.writeJSON(buffer); err != nil {
		return err
	}
	buffer.WriteString("}\n")
	return pieces.WriteAll(w, buffer.Bytes())
}

const prettyIndent = "  "

func (o *object) encodePretty(w io.Writer) error {
	buffer := o.format.buffers.Get()
	defer o.format.buffers.Put(buffer)
	plain := o.format.buffers.Get()
	defer o.format.buffers.Put(plain)
	if err := o.writeJSON(plain); err != nil {
		return err
	}
	if err := json.Indent(buffer, plain.Bytes(), "", prettyIndent); err != nil {
		return fmt.Errorf("indent %q: %w", o.row.Key, err)
	}
	return pieces.WriteAll(w, buffer.Bytes())
}

// addTo applies the addition to decoded metadata.
func (a addition) addTo(m metav1.Object) {
	m.SetResourceVersion(strconv.FormatInt(a.rev, 10))
	if len(a.annotations) > 0 {
		m.SetAnnotations(added(m.GetAnnotations(), a.annotations))
	}
	if len(a.labels) > 0 {
		m.SetLabels(added(m.GetLabels(), a.labels))
	}
}

func added(to map[string]string, all []field) map[string]string {
	if to == nil {
		to = make(map[string]string, len(all))
	}
	for _, f := range all {
		to[f.name] = f.value
	}
	return to
}

// opaque hides CacheEncode from encoders that transform an object. These need only its metadata or
// ConvertToTable.
type opaque struct{ object *object }

func (t opaque) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (t opaque) DeepCopyObject() runtime.Object   { return t }
func (t opaque) GetObjectMeta() metav1.Object     { return t.object.GetObjectMeta() }

// writeMetadata writes only the metadata. end is the offset at which they end in the object's JSON,
// or 0 if it is unknown.
func (o *object) writeMetadata(end int, w io.Writer) error {
	d, a, err := o.document()
	if err != nil {
		return err
	}
	begin := d.metadata - 1
	if end == 0 {
		var ok bool
		if end, ok = jsonscan.End(d.value, begin); !ok {
			return fmt.Errorf("write the metadata of %q: they do not end", o.row.Key)
		}
	}
	d.value = d.value[begin:end]
	d.metadata = 1
	for _, offset := range []*int{&d.annotations, &d.labels} {
		if *offset > 0 {
			*offset -= begin
		}
	}
	return d.write(w, a)
}

// encodeShared encodes an event once for all watches that send the same bytes.
func (o *object) encodeShared(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	k := encodedKey{entry: o.row.Entry, rev: o.rev, display: o.format.view.display, id: id}
	if location := o.format.view.display.location; location != "" {
		k.class = classAt(o.row, location)
	}
	encoded := o.format.recent.get(k)
	if encoded == nil {
		made, err := o.encodable(o.format.shape.catalog[id].form)
		if err != nil {
			return err
		}
		buffer := o.format.buffers.Get()
		defer o.format.buffers.Put(buffer)
		if err := encode(made, buffer); err != nil {
			return err
		}
		encoded = append([]byte(nil), buffer.Bytes()...)
		o.format.recent.put(k, encoded)
	}
	return pieces.WriteAll(w, encoded)
}

// encodable returns the input that an encoder needs: protobuf if JSON can be converted to it,
// otherwise the decoded object.
func (o *object) encodable(f form) (runtime.Object, error) {
	if f == formProtobuf && o.format.transcoder() != nil {
		raw, ok, err := o.transcoded(nil)
		if err != nil {
			return nil, err
		}
		if ok {
			return &runtime.Unknown{TypeMeta: o.format.typeMeta(o.format.view.kind.GVK.Kind), Raw: raw}, nil
		}
	}
	return o.decode()
}

// transcoded appends the protobuf of the object; ok is false if it has to be decoded first.
func (o *object) transcoded(to []byte) (all []byte, ok bool, err error) {
	buffer := o.format.buffers.Get()
	defer o.format.buffers.Put(buffer)
	if err := o.writeJSON(buffer); err != nil {
		return to, false, err
	}
	all, ok = o.format.transcoder().Append(to, buffer.Bytes())
	return all, ok, nil
}

// marshalled returns the protobuf of an object that has to be decoded.
func (o *object) marshalled() ([]byte, error) {
	decoded, err := o.decode()
	if err != nil {
		return nil, err
	}
	m, ok := decoded.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("encode %q: %T has no protobuf", o.row.Key, decoded)
	}
	encoded, err := m.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %q: %w", o.row.Key, err)
	}
	return encoded, nil
}
