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

// Created finds the fields that an object's creator owns: all that it has, and an empty one has not.
// It finds what a field manager of k8s.io/apimachinery does, which compares the two by way of
// values and sets; here both are walked as the JSON that is stored. It is immutable.
type Created struct {
	schema *schema.Schema
	root   schema.TypeRef
	// empty is an object that nobody has filled.
	empty []byte
	// status says that the field is not the creator's.
	status bool
}

// NewCreated is for objects of the type of an empty one, whose JSON is given as it would be stored.
// withoutStatus says that a status is not written by whoever creates the object.
func NewCreated(empty *typed.TypedValue, stored []byte, withoutStatus bool) *Created {
	return &Created{empty.Schema(), empty.TypeRef(), stored, withoutStatus}
}

// Append appends the fields of a stored object as FieldsV1 has them; nothing, if there are none. It
// reads JSON without spaces, as it is encoded. ok is false if the object has what is left to others:
// what its type does not allow, names or keys that JSON escapes, elements that are there twice.
func (c *Created) Append(to, object []byte) (all []byte, ok bool) {
	w := creation{of: c, all: to}
	w.node(c.root, object, c.empty, 0)
	if w.failed {
		return to, false
	}
	return w.all, true
}

// creation walks an object.
type creation struct {
	of     *Created
	all    []byte
	failed bool
}

// Where a node is in an object: fields that are nobody's are at its top and in its metadata.
const (
	atTop = iota
	inMetadata
	deeper
)

// node appends the fields of a value, unless there are none: itself as ".", if it is owned and has
// owned parts. without is the value in the empty object; nil: it is not there.
func (w *creation) node(ref schema.TypeRef, v, without []byte, at int) (found bool) {
	atom, ok := w.of.schema.Resolve(ref)
	if !ok || len(v) == 0 {
		w.failed = true
		return false
	}
	before, owned := len(w.all), without == nil
	switch {
	case w.failed:
	case v[0] == '{' && atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic && !(isEmpty(v) && isEmpty(without)):
		w.all = append(w.all, '{')
		parts := w.open(owned && at != inMetadata)
		w.fields(atom.Map, v, without, at)
		return w.close(before, parts)
	case v[0] == '[' && atom.List != nil && atom.List.ElementRelationship != schema.Atomic && !(isEmpty(v) && isEmpty(without)):
		w.failed = w.failed || !isEmpty(without)
		w.all = append(w.all, '{')
		parts := w.open(owned)
		w.elements(atom.List, v)
		return w.close(before, parts)
	case v[0] == '{' && atom.Map == nil, v[0] == '[' && atom.List == nil, v[0] != '{' && v[0] != '[' && v[0] != 'n' && atom.Scalar == nil:
		w.failed = true
	case owned || !bytes.Equal(v, without):
		w.all = append(w.all, "{}"...)
		return true
	}
	return false
}

// open begins the parts of a node, and returns where they begin: with the node itself, if it is owned.
func (w *creation) open(owned bool) int {
	if owned {
		w.all = append(w.all, `".":{}`...)
	}
	return len(w.all)
}

// close ends a node that began somewhere, with its parts. One that has none is as if it had not begun,
// or, if it is owned, as a leaf.
func (w *creation) close(began, parts int) bool {
	owned := parts > began+1
	switch {
	case len(w.all) > parts:
		w.all = append(w.all, '}')
		return true
	case owned:
		w.all = append(w.all[:began], "{}"...)
		return true
	}
	w.all = w.all[:began]
	return false
}

// part appends a field or element by the name that it has in a set, if anything of it is owned.
func (w *creation) part(of string, name []byte, ref schema.TypeRef, v, without []byte, at int) {
	before := len(w.all)
	if w.all[before-1] != '{' {
		w.all = append(w.all, ',')
	}
	w.all = append(w.all, '"')
	w.all = append(w.all, of...)
	w.all = append(w.all, name...)
	w.all = append(w.all, `":`...)
	if !w.node(ref, v, without, at) {
		w.all = w.all[:before]
	}
}

// fields appends the fields of a map, in their order.
func (w *creation) fields(m *schema.Map, v, without []byte, at int) {
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
		if at == atTop && name == "metadata" {
			below = inMetadata
		}
		if w.isNobodys(name, at) {
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
		w.part("f:", f.name, ref, f.value, before, below)
	}
}

// isNobodys says of a field that it never is in a set, as field managers have it.
func (w *creation) isNobodys(name string, at int) bool {
	switch at {
	case atTop:
		return name == "apiVersion" || name == "kind" || name == "status" && w.of.status
	case inMetadata:
		switch name {
		case "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion":
			return true
		}
	}
	return false
}

// element is one of a list that is told from others by its keys, or by itself.
type element struct {
	keys  []member
	value []byte
}

// elements appends the elements of a list, in their order.
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
		w.part("", e.name(l), l.ElementType, e.value, nil, deeper)
	}
}

// keys are those of an element, by their names; failed says that they are left to others.
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
			continue // by which it is another one than with any value
		}
		if !isPlain(key.value) {
			return nil, true
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	return keys, len(keys) == 0
}

// keyOf is a key that an element does not have, if that has a default.
func (w *creation) keyOf(l *schema.List, name string) (text []byte, ok bool) {
	atom, ok := w.of.schema.Resolve(l.ElementType)
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

// compare orders elements as sets of fields do.
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
			w.failed = true // a number and a text
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

// name is how an element is called in a set.
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

// escaped is a value that isPlain within a text.
func escaped(v []byte) string { return strings.ReplaceAll(string(v), `"`, `\"`) }

// isPlain says of a value that it is a number without a fraction, or a text that is the same when
// it is escaped.
func isPlain(v []byte) bool {
	if v[0] == '"' {
		return len(v) >= 2 && jsonscan.IsPlain(v[1:len(v)-1])
	}
	_, err := strconv.ParseInt(string(v), 10, 64)
	return err == nil
}

// isEmpty says that a value has no parts.
func isEmpty(v []byte) bool { return len(v) <= len("{}") || string(v) == "null" }
