package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// document is an object as JSON, without the addition of a view. Its bytes may belong to the table
// and are never changed.
type document struct {
	value []byte // trailing newlines are not written
	// metadata, annotations and labels are the offsets after their opening braces. The last two are
	// 0 if there are none. labels is not set for values of the table, because no view adds labels
	// to these.
	metadata, annotations, labels int
	// skip is the number of bytes after the first one that are not written.
	skip int
}

// addition is the metadata that a view adds to an object.
type addition struct {
	rev int64 // the resourceVersion
	// annotations and labels must not exist in the object.
	annotations, labels []field
}

// field is one annotation or label.
type field struct{ name, value string }

// stored returns the document of an entry.
func stored(e *table.Entry) (document, error) {
	if e.Meta.Insert == 0 {
		return document{}, fmt.Errorf("object %q has no metadata", e.Key)
	}
	return document{value: e.Value, metadata: e.Meta.Insert, annotations: e.Meta.InsertAnnotation}, nil
}

// parse returns the document of a value that does not belong to the table.
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

// write writes the document and the addition without copying the document. The first Write is the
// opening brace alone, by which the response writer recognizes a stream that it may compress.
func (d document) write(w io.Writer, a addition) error {
	if err := pieces.WriteAll(w, d.value[:1], d.value[1+d.skip:d.metadata], d.identity(a)); err != nil {
		return err
	}
	from := d.metadata
	for _, m := range d.maps(a) {
		if m.offset == 0 || len(m.fields) == 0 {
			continue
		}
		if err := pieces.WriteAll(w, d.value[from:m.offset], d.separated(m.offset, encoded(nil, m.fields))); err != nil {
			return err
		}
		from = m.offset
	}
	return pieces.WriteAll(w, bytes.TrimRight(d.value[from:], "\n"))
}

// addedMap has the fields to add to a map in the metadata, and the offset of that map.
type addedMap struct {
	name   string
	offset int
	fields []field
}

// maps returns the maps to which fields are added, in the order of the document.
func (d document) maps(a addition) [2]addedMap {
	annotations, labels := addedMap{"annotations", d.annotations, a.annotations}, addedMap{"labels", d.labels, a.labels}
	if d.labels < d.annotations {
		return [2]addedMap{labels, annotations}
	}
	return [2]addedMap{annotations, labels}
}

// without returns the document without head, if it starts with head.
func (d document) without(head []byte) document {
	if len(head) > 0 && bytes.HasPrefix(d.value, head) {
		d.skip = len(head) - 1
	}
	return d
}

// identity returns the fields to insert after the opening brace of the metadata.
func (d document) identity(a addition) []byte {
	fields := make([]byte, 0, 96)
	fields = append(fields, `"resourceVersion":"`...)
	fields = strconv.AppendInt(fields, a.rev, 10)
	fields = append(fields, '"')
	for _, m := range d.maps(a) {
		if m.offset == 0 && len(m.fields) > 0 {
			fields = append(fields, `,"`+m.name+`":{`...)
			fields = append(encoded(fields, m.fields), '}')
		}
	}
	return d.separated(d.metadata, fields)
}

// separated adds a comma to fields unless the target object is empty.
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

// withoutSpace removes a SpaceAnnotation that a user wrote, because the view adds its own.
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
