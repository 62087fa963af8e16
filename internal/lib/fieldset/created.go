package fieldset

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// Created finds the fields that the creator of an object owns: all fields except those of an empty
// object. The result equals that of a field manager of k8s.io/apimachinery, which compares the two
// objects as values and sets. Here both are read as stored JSON. It is immutable.
type Created struct {
	schema *schema.Schema
	root   schema.TypeRef
	// empty is an object without any user's fields.
	empty []byte
	// status reports that the creator does not own the status.
	status bool
}

// NewCreated returns a Created for objects of the type of an empty object. stored is the JSON of
// the empty object as it is stored. withoutStatus reports that the creator of an object does not
// write its status.
func NewCreated(empty *typed.TypedValue, stored []byte, withoutStatus bool) *Created {
	return &Created{empty.Schema(), empty.TypeRef(), stored, withoutStatus}
}

// Append appends the owned fields of a stored object as FieldsV1; nothing if there are none. The
// JSON of the object must have no spaces. ok is false for objects that need the standard method:
// fields that the type does not allow, names or keys with JSON escapes, and repeated elements.
func (c *Created) Append(to, object []byte) (all []byte, ok bool) {
	w := creation{creator: c, all: to}
	w.node(c.root, object, c.empty, 0)
	if w.failed {
		return to, false
	}
	return w.all, true
}

// creation visits one object.
type creation struct {
	creator *Created
	all     []byte
	failed  bool
}

// Positions of a node in an object. Fields without owner are at the top of the object and in its
// metadata.
const (
	atTop = iota
	inMetadata
	deeper
)

// node appends the fields of a value, unless there are none. An owned value with owned parts adds
// itself as ".". without is the value in the empty object, or nil if it has none.
func (w *creation) node(ref schema.TypeRef, v, without []byte, position int) (found bool) {
	atom, ok := w.creator.schema.Resolve(ref)
	if !ok || len(v) == 0 {
		w.failed = true
		return false
	}
	before, owned := len(w.all), without == nil
	switch {
	case w.failed:
	case v[0] == '{' && atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic && !(isEmpty(v) && isEmpty(without)):
		w.all = append(w.all, '{')
		begun := w.open(owned && position != inMetadata)
		w.fields(atom.Map, v, without, position)
		return w.close(before, begun)
	case v[0] == '[' && atom.List != nil && atom.List.ElementRelationship != schema.Atomic && !(isEmpty(v) && isEmpty(without)):
		w.failed = w.failed || !isEmpty(without)
		w.all = append(w.all, '{')
		begun := w.open(owned)
		w.elements(atom.List, v)
		return w.close(before, begun)
	case v[0] == '{' && atom.Map == nil, v[0] == '[' && atom.List == nil, v[0] != '{' && v[0] != '[' && v[0] != 'n' && atom.Scalar == nil:
		w.failed = true
	case owned || !bytes.Equal(v, without):
		w.all = append(w.all, "{}"...)
		return true
	}
	return false
}

// open begins the parts of a node, and returns their offset. An owned node comes first.
func (w *creation) open(owned bool) int {
	if owned {
		w.all = append(w.all, `".":{}`...)
	}
	return len(w.all)
}

// close ends a node that began at an offset, with its parts. A node without parts is removed or, if
// it is owned, becomes a leaf.
func (w *creation) close(began, children int) bool {
	owned := children > began+1
	switch {
	case len(w.all) > children:
		w.all = append(w.all, '}')
		return true
	case owned:
		w.all = append(w.all[:began], "{}"...)
		return true
	}
	w.all = w.all[:began]
	return false
}

// appendField appends a field or element under its name in the set, if any part of it is owned.
func (w *creation) appendField(prefix string, name []byte, ref schema.TypeRef, v, without []byte, position int) {
	before := len(w.all)
	if w.all[before-1] != '{' {
		w.all = append(w.all, ',')
	}
	w.all = append(w.all, '"')
	w.all = append(w.all, prefix...)
	w.all = append(w.all, name...)
	w.all = append(w.all, `":`...)
	if !w.node(ref, v, without, position) {
		w.all = w.all[:before]
	}
}

// fields appends the fields of a map in order.
func (w *creation) fields(m *schema.Map, v, without []byte, position int) {
	var room, less [16]member
	all, ok := members(room[:0], v)
	empty, ok2 := members(less[:0], without)
	if !ok || !ok2 {
		w.failed = true
		return
	}
	slices.SortFunc(all, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	for i, f := range all {
		if i > 0 && bytes.Equal(f.name, all[i-1].name) {
			w.failed = true
			return
		}
		name := string(f.name)
		below := deeper
		if position == atTop && name == "metadata" {
			below = inMetadata
		}
		if w.isNobodys(name, position) {
			continue
		}
		ref := m.ElementType
		if field, ok := m.FindField(name); ok {
			ref = field.Type
		}
		var before []byte
		if i := slices.IndexFunc(empty, func(e member) bool { return bytes.Equal(e.name, f.name) }); i >= 0 {
			before = empty[i].value
		}
		w.appendField("f:", f.name, ref, f.value, before, below)
	}
}

// isNobodys reports whether a field is never in a set, by the rules of field managers.
func (w *creation) isNobodys(name string, position int) bool {
	switch position {
	case atTop:
		return name == "apiVersion" || name == "kind" || name == "status" && w.creator.status
	case inMetadata:
		switch name {
		case "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion":
			return true
		}
	}
	return false
}

// element is an element of a list that its keys, or its value, identify.
type element struct {
	keys  []member
	value []byte
}

// elements appends the elements of a list in order.
func (w *creation) elements(l *schema.List, v []byte) {
	var all []element
	ok := values(v, func(value []byte) bool {
		e := element{value: value}
		e.keys, w.failed = w.keys(l, value)
		all = append(all, e)
		return !w.failed
	})
	if !ok || w.failed {
		w.failed = true
		return
	}
	slices.SortFunc(all, w.compare)
	for i, e := range all {
		if i > 0 && w.compare(all[i-1], e) == 0 {
			w.failed = true
			return
		}
		w.appendField("", e.name(l), l.ElementType, e.value, nil, deeper)
	}
}

// keys returns the keys of an element, sorted by name; failed is true if the object needs the
// standard method.
func (w *creation) keys(l *schema.List, v []byte) (keys []member, failed bool) {
	if len(l.Keys) == 0 {
		return []member{{value: v}}, !isPlain(v)
	}
	var room [16]member
	all, ok := members(room[:0], v)
	if !ok {
		return nil, true
	}
	for _, name := range l.Keys {
		i := slices.IndexFunc(all, func(m member) bool { return string(m.name) == name })
		key := member{name: []byte(name)}
		if i >= 0 {
			key.value = all[i].value
		} else if text, ok := w.keyOf(l, name); ok {
			key.value = text
		}
		if key.value == nil {
			continue // it differs from an element with any value of this key
		}
		if !isPlain(key.value) {
			return nil, true
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	return keys, len(keys) == 0
}

// keyOf returns the default of a key that an element does not have.
func (w *creation) keyOf(l *schema.List, name string) (text []byte, ok bool) {
	atom, ok := w.creator.schema.Resolve(l.ElementType)
	if !ok || atom.Map == nil {
		w.failed = true
		return nil, false
	}
	field, _ := atom.Map.FindField(name)
	if field.Default == nil {
		return nil, false
	}
	def, ok := field.Default.(string)
	w.failed = w.failed || !ok
	return []byte(strconv.Quote(def)), ok
}

// compare orders elements like sets of fields.
func (w *creation) compare(a, b element) int {
	for i := range min(len(a.keys), len(b.keys)) {
		if c := bytes.Compare(a.keys[i].name, b.keys[i].name); c != 0 {
			return c
		}
		x, y := a.keys[i].value, b.keys[i].value
		m, err := strconv.ParseInt(string(x), 10, 64)
		n, err2 := strconv.ParseInt(string(y), 10, 64)
		switch {
		case (err == nil) != (err2 == nil):
			w.failed = true // a number and a string
			return 0
		case err == nil && m != n:
			return int(max(-1, min(m-n, 1)))
		case err != nil:
			if c := strings.Compare(string(x[1:len(x)-1]), string(y[1:len(y)-1])); c != 0 {
				return c
			}
		}
	}
	return len(a.keys) - len(b.keys)
}

// name returns the name of an element in a set.
func (e element) name(l *schema.List) []byte {
	if len(l.Keys) == 0 {
		return []byte("v:" + escaped(e.value))
	}
	var name bytes.Buffer
	name.WriteString("k:{")
	for i, k := range e.keys {
		if i > 0 {
			name.WriteByte(',')
		}
		name.WriteString(`\"` + string(k.name) + `\":` + escaped(k.value))
	}
	name.WriteByte('}')
	return name.Bytes()
}

// escaped returns the JSON of a value for which isPlain is true, inside a string.
func escaped(v []byte) string { return strings.ReplaceAll(string(v), `"`, `\"`) }

// isPlain reports whether a value is a number without a fraction, or a string that needs no
// escapes.
func isPlain(v []byte) bool {
	if v[0] == '"' {
		return len(v) >= 2 && jsonscan.IsPlain(v[1:len(v)-1])
	}
	_, err := strconv.ParseInt(string(v), 10, 64)
	return err == nil
}

// isEmpty reports whether a value has no parts.
func isEmpty(v []byte) bool { return len(v) <= len("{}") || string(v) == "null" }
