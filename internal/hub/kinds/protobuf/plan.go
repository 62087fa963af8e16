package protobuf

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// planner finds out how types are encoded.
type planner struct {
	known map[reflect.Type]*message
	// complete is false when something was met that it does not know.
	complete bool
}

// generated is what types have whose protobuf methods were generated, or written by hand. What
// MarshalToSizedBuffer writes ends with the buffer.
type generated interface {
	Size() int
	MarshalToSizedBuffer(buffer []byte) (int, error)
}

// message is the plan of a struct; those that refer to themselves refer to their plan.
func (p *planner) message(t reflect.Type) *message {
	if m, ok := p.known[t]; ok {
		return m
	}
	m := &message{names: map[string]int{}}
	p.known[t] = m
	if !is[generated](t) {
		p.complete = false
		return m
	}
	if meta, ok := t.FieldByName("TypeMeta"); ok && meta.Type == reflect.TypeFor[metav1.TypeMeta]() {
		m.typed, m.values = true, firstAt
		m.names["kind"], m.names["apiVersion"] = kindAt, apiVersionAt
	}
	for field := range t.Fields() {
		p.add(m, field)
	}
	slices.SortFunc(m.fields, func(a, b field) int { return cmp.Compare(b.tag, a.tag) })
	return m
}

// add adds a field of a struct. Those without a tag are not in its message.
func (p *planner) add(m *message, goField reflect.StructField) {
	number := numberOf(goField.Tag.Get("protobuf"))
	if number == 0 {
		return
	}
	name, options, _ := strings.Cut(goField.Tag.Get("json"), ",")
	f := field{index: m.values, tag: number<<3 | wireLength}
	switch {
	case name == "-" || strings.Contains(options, "string"):
		p.complete = false
	case name == "" && goField.Anonymous && goField.Type.Kind() == reflect.Struct && !is[json.Unmarshaler](goField.Type):
		f.inlined = p.message(goField.Type)
		m.values += f.inlined.values
		for name, index := range f.inlined.names {
			p.name(m, name, f.index+index)
		}
	case name == "":
		p.complete = false
	default:
		m.values++
		p.name(m, name, f.index)
		p.describe(&f, goField.Type)
	}
	m.fields = append(m.fields, f)
}

// name says at which place the value of a name is; no two fields may have the same.
func (p *planner) name(m *message, name string, index int) {
	if _, ok := m.names[name]; ok {
		p.complete = false
	}
	m.names[name] = index
}

// describe determines the encoding of a field of type t.
func (p *planner) describe(f *field, t reflect.Type) {
	switch {
	case t.Kind() == reflect.Pointer:
		f.single, f.nullable = p.codec(t.Elem()), true
	case isBytes(t), t.Kind() == reflect.Slice && is[generated](t):
		f.single, f.nullable = p.codec(t), true
	case t.Kind() == reflect.Slice:
		f.repeated, f.nullable = p.codec(t.Elem()), true
	case t.Kind() == reflect.Map && !is[generated](t):
		p.complete = p.complete && t.Key().Kind() == reflect.String && !is[encoding.TextUnmarshaler](t.Key())
		f.mapped, f.nullable = p.codec(t.Elem()), true
	default:
		f.single, f.nullable = p.codec(t), !is[json.Unmarshaler](t)
		p.zero(f, t)
		return
	}
	p.tag(f)
}

// tag adds the wire type of the values to the tag of a field.
func (p *planner) tag(f *field) {
	if c := cmp.Or(f.single, f.repeated); c != nil {
		f.tag = f.tag&^7 | c.wire
	}
}

// zero determines the encoding of a field without a value: the zero value of its type.
func (p *planner) zero(f *field, t reflect.Type) {
	p.tag(f)
	w := &writer{}
	switch f.single.wire {
	case wireVarint:
		w.varint(0)
	case wireFixed64:
		w.bytes(make([]byte, 8))
	default:
		if v, ok := reflect.TypeAssert[generated](reflect.New(t)); ok {
			p.complete = p.complete && marshal(w, v)
		}
		w.varint(uint64(w.length()))
	}
	w.varint(f.tag)
	f.absent = w.written()
}

// numberOf is the number of a field by its tag, as in "bytes,2,opt,name=namespace"; 0 if it has
// none.
func numberOf(tag string) uint64 {
	options := strings.Split(tag, ",")
	if len(options) < 2 {
		return 0
	}
	n, err := strconv.ParseUint(options[1], 10, 29)
	if err != nil {
		return 0
	}
	return n
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !is[generated](t)
}

// is reports whether pointers to a type implement an interface.
func is[methods any](t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[methods]())
}
