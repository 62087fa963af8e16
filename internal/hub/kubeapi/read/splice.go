package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// document is an object as JSON, without what a view adds to its metadata. The
// bytes may be the table's own and are never changed.
type document struct {
	value []byte // maybe with newlines at its end, which are not written
	// metadata, annotations and labels are the offsets just after their opening braces; the
	// last two are 0 if there are none. labels is not set for values of the table, to whose
	// labels no view adds.
	metadata, annotations, labels int
	// skip is how many bytes after the first are not written.
	skip int
}

// addition is what a view adds to the metadata of an object.
type addition struct {
	rev int64 // the resourceVersion to show
	// annotations and labels are added to those of the object, which has none of the names.
	annotations, labels []field
}

// field is one annotation or label.
type field struct{ name, value string }

// stored is an entry's document.
func stored(e *table.Entry) (document, error) {
	if e.Meta.Insert == 0 {
		return document{}, fmt.Errorf("object %q has no metadata", e.Key)
	}
	return document{value: e.Value, metadata: e.Meta.Insert, annotations: e.Meta.InsertAnnotation}, nil
}

// parse finds the offsets in a value that is not the table's.
func parse(value []byte) (document, error) {
	metadata := gjson.GetBytes(value, "metadata")
	if !metadata.IsObject() || metadata.Index == 0 {
		return document{}, fmt.Errorf("object has no metadata")
	}
	d := document{value: value, metadata: metadata.Index + 1}
	metadata.ForEach(func(k, v gjson.Result) bool {
		switch {
		case !v.IsObject():
		case k.Str == "annotations":
			d.annotations = v.Index + 1
		case k.Str == "labels":
			d.labels = v.Index + 1
		}
		return d.annotations == 0 || d.labels == 0
	})
	return d, nil
}

// write writes the document with what the view adds, without copying it. The
// first Write is the opening brace alone, by which the response writer
// recognizes a stream that it may compress.
func (d document) write(w io.Writer, a addition) error {
	if err := writeAll(w, d.value[:1], d.value[1+d.skip:d.metadata], d.identity(a)); err != nil {
		return err
	}
	from := d.metadata
	for _, m := range d.maps(a) {
		if m.at == 0 || len(m.fields) == 0 {
			continue
		}
		if err := writeAll(w, d.value[from:m.at], d.separated(m.at, encoded(nil, m.fields))); err != nil {
			return err
		}
		from = m.at
	}
	return writeAll(w, bytes.TrimRight(d.value[from:], "\n"))
}

// addedMap is what is added to a map in the metadata; at is its offset in the document.
type addedMap struct {
	name   string
	at     int
	fields []field
}

// maps are the maps that are added to, in the order of the document.
func (d document) maps(a addition) [2]addedMap {
	annotations, labels := addedMap{"annotations", d.annotations, a.annotations}, addedMap{"labels", d.labels, a.labels}
	if d.labels < d.annotations {
		return [2]addedMap{labels, annotations}
	}
	return [2]addedMap{annotations, labels}
}

// without is the document without head, if it begins with it.
func (d document) without(head []byte) document {
	if len(head) > 0 && bytes.HasPrefix(d.value, head) {
		d.skip = len(head) - 1
	}
	return d
}

// identity is what is inserted just after the opening brace of the metadata.
func (d document) identity(a addition) []byte {
	fields := make([]byte, 0, 96)
	fields = append(fields, `"resourceVersion":"`...)
	fields = strconv.AppendInt(fields, a.rev, 10)
	fields = append(fields, '"')
	for _, m := range d.maps(a) {
		if m.at == 0 && len(m.fields) > 0 {
			fields = append(fields, `,"`+m.name+`":{`...)
			fields = append(encoded(fields, m.fields), '}')
		}
	}
	return d.separated(d.metadata, fields)
}

// separated adds a comma to fields unless the object that they are inserted into is empty.
func (d document) separated(offset int, fields []byte) []byte {
	if d.value[offset] == '}' {
		return fields
	}
	return append(fields, ',')
}

// encoded appends fields in JSON, with commas between them.
func encoded(to []byte, all []field) []byte {
	for i, f := range all {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(gjson.AppendJSONString(to, f.name), ':')
		to = gjson.AppendJSONString(to, f.value)
	}
	return to
}

func writeAll(w io.Writer, parts ...[]byte) error {
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// withoutSpace returns a value without a SpaceAnnotation that a user wrote, so that the one
// that the view adds is the only one.
func withoutSpace(value []byte) ([]byte, error) {
	if !bytes.Contains(value, []byte(v1alpha1.SpaceAnnotation)) {
		return value, nil
	}
	annotations := gjson.GetBytes(value, "metadata.annotations")
	if !annotations.IsObject() {
		return value, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(annotations.Raw), &fields); err != nil {
		return nil, fmt.Errorf("read annotations: %w", err)
	}
	if _, ok := fields[v1alpha1.SpaceAnnotation]; !ok {
		return value, nil
	}
	delete(fields, v1alpha1.SpaceAnnotation)
	others, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write annotations: %w", err)
	}
	end := annotations.Index + len(annotations.Raw)
	return bytes.Join([][]byte{value[:annotations.Index], others, value[end:]}, nil), nil
}
