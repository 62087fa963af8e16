package protobuf

import (
	"bytes"
	"slices"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// message describes how a JSON object is encoded as the message of a Go struct.
type message struct {
	// values is the number of its values, including those of messages that are inlined in JSON;
	// names maps each JSON name to the index of its value.
	values int
	names  map[string]int
	// typed reports whether the first two values are a kind and its version, which are not written.
	typed bool
	// fields are in the order in which they are written: the last one first.
	fields []field
}

// Indexes of the kind and its version among the values of a typed message.
const (
	kindAt = iota
	apiVersionAt
	firstAt
)

// field is one field of a message.
type field struct {
	// index is that of its value, or of the first value of an inlined message.
	index int
	tag   uint64
	// Exactly one of the following is set: single for one value, repeated for an array, mapped for an
	// object, inlined for a message whose fields JSON contains without braces.
	single, repeated *codec
	mapped           *codec
	inlined          *message
	// absent is the encoded field if there is no value; nil to write nothing.
	absent []byte
	// nullable reports whether null means no value; otherwise the codec encodes null.
	nullable bool
}

// codec writes a value without its tag.
type codec struct {
	// wire is the type of the encoding: what it writes is preceded by its length if that is
	// wireLength.
	wire  uint64
	write func(w *writer, value []byte) bool
}

// The types of encodings of protobuf that are used.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireLength  = 2
)

// deepest is how many messages deep objects may be, whose JSON is gone through once for each
// in which it is: the schema of a CRD can be as deep as it is long. The decoder goes through
// such ones once.
const deepest = 32

// encode writes a JSON object; it is false for one that has to be decoded.
func (m *message) encode(w *writer, object []byte) bool {
	if w.depth == deepest {
		return false
	}
	w.depth++
	base := w.reserve(m.values)
	ok := m.read(w, base, object) && m.write(w, base)
	w.release(base)
	w.depth--
	return ok
}

// read puts the members of an object where they are expected.
func (m *message) read(w *writer, base int, object []byte) bool {
	c := jsonscan.NewCursor(object)
	if !c.Open('{') {
		return false
	}
	for c.More() {
		name, ok := c.Name()
		if !ok || bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		value, ok := c.Value()
		if !ok {
			return false
		}
		if index, known := m.names[string(name[1:len(name)-1])]; known {
			if w.values[base+index] != nil { // twice: they would be merged
				return false
			}
			w.values[base+index] = value
		}
	}
	return !m.typed || isText(w.values[base+kindAt]) && isText(w.values[base+apiVersionAt])
}

// isText reports whether a value is absent or a string.
func isText(value []byte) bool { return value == nil || value[0] == '"' || isNull(value) }

// write writes what has been read.
func (m *message) write(w *writer, base int) bool {
	for i := range m.fields {
		if !m.fields[i].write(w, base) {
			return false
		}
	}
	return true
}

func (f *field) write(w *writer, base int) bool {
	if f.inlined != nil {
		end := w.length()
		if !f.inlined.write(w, base+f.index) {
			return false
		}
		w.varint(uint64(w.length() - end))
		w.varint(f.tag)
		return true
	}
	value := w.values[base+f.index]
	switch {
	case value == nil || f.nullable && isNull(value):
		w.bytes(f.absent)
		return true
	case f.repeated != nil:
		return f.writeArray(w, value)
	case f.mapped != nil:
		return f.writeMap(w, value)
	}
	return f.single.field(w, f.tag, value)
}

// field writes one value with its tag.
func (c *codec) field(w *writer, tag uint64, value []byte) bool {
	end := w.length()
	if !c.write(w, value) {
		return false
	}
	if c.wire == wireLength {
		w.varint(uint64(w.length() - end))
	}
	w.varint(tag)
	return true
}

func (f *field) writeArray(w *writer, array []byte) bool {
	c := jsonscan.NewCursor(array)
	if !c.Open('[') {
		return false
	}
	base := len(w.values)
	defer w.release(base)
	for c.More() {
		value, ok := c.Value()
		if !ok {
			return false
		}
		w.values = append(w.values, value)
	}
	for i := len(w.values) - 1; i >= base; i-- {
		if !f.repeated.field(w, f.tag, w.values[i]) {
			return false
		}
	}
	return true
}

// writeMap writes the members of an object by their names, as generated code does.
func (f *field) writeMap(w *writer, object []byte) bool {
	var few [16]member
	members, ok := membersOf(few[:0], object)
	if !ok {
		return false
	}
	for _, m := range slices.Backward(members) {
		end := w.length()
		if !f.mapped.field(w, 2<<3|f.mapped.wire, m.value) {
			return false
		}
		w.bytes(m.name)
		w.varint(uint64(len(m.name)))
		w.varint(1<<3 | wireLength)
		w.varint(uint64(w.length() - end))
		w.varint(f.tag)
	}
	return true
}

type member struct{ name, value []byte }

// membersOf appends the members of an object in the order of their names, of which there must be
// no two alike.
func membersOf(to []member, object []byte) ([]member, bool) {
	c := jsonscan.NewCursor(object)
	if !c.Open('{') {
		return nil, false
	}
	for c.More() {
		quoted, ok := c.Name()
		if !ok {
			return nil, false
		}
		name, ok := text(quoted)
		if !ok {
			return nil, false
		}
		value, ok := c.Value()
		if !ok {
			return nil, false
		}
		to = append(to, member{name, value})
	}
	byName := func(a, b member) int { return bytes.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(to, byName) {
		slices.SortFunc(to, byName)
	}
	for i := 1; i < len(to); i++ {
		if bytes.Equal(to[i-1].name, to[i].name) {
			return nil, false
		}
	}
	return to, true
}
