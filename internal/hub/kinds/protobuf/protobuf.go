// Package protobuf makes the protobuf of an object from its stored JSON, without decoding the JSON
// into a Go value: decoding would be two thirds of the work for a list in protobuf. The tags of a Go
// type determine the encoding of its values, as in generated code.
//
// It must return the bytes that decoding and encoding would return, or report that it can't. Unusual
// JSON (a list with a null, a repeated name, a number out of range) is left to the decoder.
package protobuf

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Types makes transcoders, which share the messages of common Go types. The zero value is ready to
// use. It is safe for concurrent use.
type Types struct {
	mu    sync.Mutex
	known map[reflect.Type]*message
}

// Type transcodes the objects of one kind. It is safe for concurrent use.
type Type struct {
	gvk     schema.GroupVersionKind
	message func() *message
}

// Type returns the transcoder of a kind with a struct type that has generated protobuf methods. The
// transcoder analyses the type at its first use, since most hubs never use most kinds.
func (t *Types) Type(gvk schema.GroupVersionKind, goType reflect.Type) *Type {
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

// Supported reports whether objects of the kind can be transcoded.
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

// is reports whether the first values of an object are this kind and version.
func (t *Type) is(values [][]byte) bool {
	kind, _ := text(values[kindAt])
	apiVersion, _ := text(values[apiVersionAt])
	return string(kind) == t.gvk.Kind && string(apiVersion) == t.gvk.GroupVersion().String()
}

var writers = sync.Pool{New: func() any { return &writer{} }}
