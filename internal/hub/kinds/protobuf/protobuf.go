// Package protobuf makes the protobuf of an object from its stored JSON, without making the
// object: a list in protobuf of what is kept as JSON thereby costs what is written, where
// decoding would be two thirds of all work. How the values of a Go type are encoded follows
// from its tags, as in the code that is generated from them.
//
// It must give the bytes that decoding and encoding gives, or say that it can't: what is
// unusual (a list with a null, a name twice, a number too large) is left to the decoder.
package protobuf

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Types makes transcoders, and shares what they have in common. The zero value is ready. It is
// safe for concurrent use.
type Types struct {
	mu    sync.Mutex
	known map[reflect.Type]*message
}

// Type transcodes the objects of one kind. It is safe for concurrent use.
type Type struct {
	gvk     schema.GroupVersionKind
	message func() *message
}

// Of is the transcoder of a kind that is held in a struct type with generated protobuf methods.
// What it needs is found out when it is first used: most hubs never need that of most kinds.
func (t *Types) Of(gvk schema.GroupVersionKind, goType reflect.Type) *Type {
	return &Type{gvk, sync.OnceValue(func() *message {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.known == nil {
			t.known = map[reflect.Type]*message{}
		}
		p := planner{t.known, true}
		m := p.message(goType)
		if !p.complete || !m.typed {
			t.known = nil // what others share must be complete
			return nil
		}
		return m
	})}
}

// Supported says whether objects of the kind can be transcoded at all.
func (t *Type) Supported() bool { return t.message() != nil }

// Append appends the protobuf of a JSON object, which must be valid JSON. ok is false, and
// nothing appended, for what has to be decoded to know what it is, and for other kinds.
func (t *Type) Append(to, object []byte) (all []byte, ok bool) {
	m := t.message()
	if m == nil {
		return to, false
	}
	w := writers.Get().(*writer)
	defer func() {
		w.reset()
		writers.Put(w)
	}()
	base := w.reserve(m.values)
	if !m.read(w, base, object) || !t.is(w.values[base:]) || !m.write(w, base) {
		return to, false
	}
	return append(to, w.written()...), true
}

// is says whether the values of an object begin with those of the kind.
func (t *Type) is(values [][]byte) bool {
	kind, _ := text(values[kindAt])
	apiVersion, _ := text(values[apiVersionAt])
	return string(kind) == t.gvk.Kind && string(apiVersion) == t.gvk.GroupVersion().String()
}

var writers = sync.Pool{New: func() any { return &writer{} }}
