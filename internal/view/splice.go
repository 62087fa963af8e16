package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// SpaceAnnotation tells, in reads across spaces, which space an object is in.
const SpaceAnnotation = v1alpha1.SpaceAnnotation

// document is an object as JSON, without what a view adds to its metadata. The
// bytes may be the table's own and are never changed.
type document struct {
	value []byte
	// metadata and annotations are the offsets just behind the opening braces
	// of these two; annotations is 0 if there are none.
	metadata, annotations int
	// skip is how many bytes behind the first are not written.
	skip int
}

// addition is what a view adds to the metadata of an object.
type addition struct {
	rev   int64     // the resourceVersion to show
	space key.Space // the space to show in an annotation; empty for none
}

// stored is an entry's document.
func stored(e *table.Entry) (document, error) {
	if e.Meta.Insert == 0 {
		return document{}, fmt.Errorf("object %q has no metadata", e.Key)
	}
	return document{value: bytes.TrimRight(e.Value, "\n"), metadata: e.Meta.Insert, annotations: e.Meta.InsertAnnotation}, nil
}

// parse finds the offsets in a value that is not the table's.
func parse(value []byte) (document, error) {
	metadata := gjson.GetBytes(value, "metadata")
	if !metadata.IsObject() || metadata.Index == 0 {
		return document{}, fmt.Errorf("object has no metadata")
	}
	d := document{value: bytes.TrimRight(value, "\n"), metadata: metadata.Index + 1}
	metadata.ForEach(func(k, v gjson.Result) bool {
		if k.String() == "annotations" && v.IsObject() {
			d.annotations = v.Index + 1
		}
		return d.annotations == 0
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
	if a.space == "" || d.annotations == 0 {
		return writeAll(w, d.value[d.metadata:])
	}
	return writeAll(w, d.value[d.metadata:d.annotations], d.separated(d.annotations, spaceField(a.space)), d.value[d.annotations:])
}

// without is the document without what it begins with, if it begins with that.
func (d document) without(head []byte) document {
	if len(head) > 0 && bytes.HasPrefix(d.value, head) {
		d.skip = len(head) - 1
	}
	return d
}

// identity is what goes just behind the opening brace of the metadata.
func (d document) identity(a addition) []byte {
	fields := make([]byte, 0, 96)
	fields = append(fields, `"resourceVersion":"`...)
	fields = strconv.AppendInt(fields, a.rev, 10)
	fields = append(fields, '"')
	if a.space != "" && d.annotations == 0 {
		fields = append(fields, `,"annotations":{`...)
		fields = append(fields, spaceField(a.space)...)
		fields = append(fields, '}')
	}
	return d.separated(d.metadata, fields)
}

// separated adds a comma unless the object is empty that the fields go into.
func (d document) separated(offset int, fields []byte) []byte {
	if d.value[offset] == '}' {
		return fields
	}
	return append(fields, ',')
}

func spaceField(s key.Space) []byte {
	// A space's name is a DNS label and needs no escape.
	return []byte(`"` + SpaceAnnotation + `":"` + string(s) + `"`)
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

// withoutSpace returns a value whose annotations have no SpaceAnnotation that a
// user wrote, so that the one which the view adds is the only one.
func withoutSpace(value []byte) ([]byte, error) {
	if !bytes.Contains(value, []byte(SpaceAnnotation)) {
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
	if _, ok := fields[SpaceAnnotation]; !ok {
		return value, nil
	}
	delete(fields, SpaceAnnotation)
	others, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write annotations: %w", err)
	}
	end := annotations.Index + len(annotations.Raw)
	return bytes.Join([][]byte{value[:annotations.Index], others, value[end:]}, nil), nil
}
