package kinds

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// noise is what encoding a Go type to JSON adds although nobody wrote it: a
// field that holds a struct is written even when it is zero ("resources": {},
// "divisor": "0", "targetPort": 0), and a required list that was left out
// becomes null. It is found once per type.
//
// A user who did write such a zero means what its absence means, because the
// API servers that read it hold it in the same Go types.
type noise struct {
	// fields is by JSON name; only fields at or below which there is noise are in it.
	fields map[string]*fieldNoise
	// inner is about the values of a list or map; nil if this is a struct.
	inner *noise
}

type fieldNoise struct {
	// zero is what a field that nobody wrote is encoded as, itself without
	// noise; hasZero tells it from a field that may not be dropped.
	zero    any
	hasZero bool
	inner   *noise
}

// noiseOf finds the noise of a struct type; nil if it has none.
func noiseOf(t reflect.Type) *noise {
	n := noiseFinder{}.find(t)
	// A spec that is more than {} when zero was required, so it was written.
	if spec := n.fields["spec"]; spec != nil && !reflect.DeepEqual(spec.zero, map[string]any{}) {
		spec.hasZero = false
	}
	if !n.matters(map[*noise]bool{}) {
		return nil
	}
	return n
}

// noiseFinder has what it found so far by type: types may contain themselves.
type noiseFinder map[reflect.Type]*noise

func (f noiseFinder) find(t reflect.Type) *noise {
	if n, ok := f[t]; ok {
		return n
	}
	if t.Kind() == reflect.Pointer {
		return f.find(t.Elem())
	}
	if encodesItself(t) {
		return nil
	}
	n := &noise{}
	f[t] = n
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		n.inner = f.find(t.Elem())
	case reflect.Struct:
		n.fields = map[string]*fieldNoise{}
		f.addFields(n, t)
	}
	return n
}

func (f noiseFinder) addFields(n *noise, t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			f.addFields(n, indirectType(field.Type))
		default:
			n.fields[name] = f.ofField(field.Type, strings.Contains(options, "omitempty"))
			if slices.Contains(optionalScalars()[t], name) {
				n.fields[name].zero, n.fields[name].hasZero = zeroOf(field.Type), true
			}
		}
	}
}

// optionalScalars are the fields that users may leave out according to their
// documentation, but that Go encodes even so. Other scalars that are always
// encoded are required: a zero there is taken for what the user wrote.
func optionalScalars() map[reflect.Type][]string {
	return map[reflect.Type][]string{
		reflect.TypeFor[appsv1.StatefulSetSpec]():                         {"serviceName"},
		reflect.TypeFor[batchv1.PodFailurePolicyOnPodConditionsPattern](): {"status"},
		reflect.TypeFor[flowcontrolv1.FlowSchemaSpec]():                   {"matchingPrecedence"},
		reflect.TypeFor[flowcontrolv1.QueuingConfiguration]():             {"queues", "handSize", "queueLengthLimit"},
	}
}

func (f noiseFinder) ofField(t reflect.Type, optional bool) *fieldNoise {
	n := &fieldNoise{inner: f.find(t)}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		n.hasZero = true // null, which only what is required is encoded as
	case reflect.Struct:
		zero := zeroOf(t)
		if optional || zero == nil {
			if object, ok := zero.(map[string]any); ok {
				n.inner.clean(object)
			}
			n.zero, n.hasZero = zero, true
		}
	}
	return n
}

// matters says whether there is anything to drop at or below n.
func (n *noise) matters(seen map[*noise]bool) bool {
	if n == nil || seen[n] {
		return false
	}
	seen[n] = true
	for name, field := range n.fields {
		if field.hasZero || field.inner.matters(seen) {
			continue
		}
		delete(n.fields, name)
	}
	return len(n.fields) > 0 || n.inner.matters(seen)
}

// clean drops the noise from a decoded value.
func (n *noise) clean(v any) {
	if n == nil {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n.inner.clean(e)
		}
	case map[string]any:
		if n.fields == nil {
			for _, e := range v {
				n.inner.clean(e)
			}
			return
		}
		for name, value := range v {
			field, ok := n.fields[name]
			if !ok {
				continue
			}
			field.inner.clean(value)
			if field.hasZero && (value == nil || reflect.DeepEqual(value, field.zero)) {
				delete(v, name)
			}
		}
	}
}

// zeroOf is the JSON of a type's zero value, decoded.
func zeroOf(t reflect.Type) any {
	var v any
	b, err := json.Marshal(reflect.New(t).Interface())
	if err != nil {
		return nil
	}
	if err := decodeExact(b, &v); err != nil {
		return nil
	}
	return v
}

// encodesItself says whether the type decides its own JSON, so that its fields say nothing.
func encodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

func indirectType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
