package downsync

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// Types makes the filters of kinds whose objects have Go types. They omit the fields that only the
// encoder adds: it writes a struct even if it is zero ("resources": {}, "divisor": "0",
// "targetPort": 0), and null for an omitted required list.
//
// If a user writes such a zero value, it has the same meaning as its absence, because the API servers
// that read it use the same Go types.
//
// Types caches filters by type, since types share others, and may contain themselves.
type Types map[reflect.Type]*Filter

// ofKind is a filter for objects of a Go struct type. The caller may change its
// fields, but not what is below them: that is shared with other kinds.
func (n Types) ofKind(t reflect.Type) *Filter {
	// The type may also be part of another (a claim in a StatefulSet).
	f := &Filter{fields: maps.Clone(n.find(t).fields)}
	// A spec that is more than {} when zero was required, so it was written.
	if spec := f.fields["spec"]; spec != nil && string(spec.zero) != "{}" {
		f.fields["spec"] = &fieldFilter{dropNull: true, inner: spec.inner}
	}
	return f
}

func (n Types) find(t reflect.Type) *Filter {
	if f, ok := n[t]; ok {
		return f
	}
	if t.Kind() == reflect.Pointer {
		return n.find(t.Elem())
	}
	if encodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		f := &Filter{}
		n[t] = f
		f.each = n.find(t.Elem())
		return f
	case reflect.Struct:
		f := &Filter{fields: map[string]*fieldFilter{}}
		n[t] = f
		n.addFields(f, t)
		return f
	default:
		return nil
	}
}

func (n Types) addFields(f *Filter, t reflect.Type) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			n.addFields(f, indirectType(field.Type))
		default:
			f.fields[name] = n.ofField(field.Type, strings.Contains(options, "omitempty"))
			if slices.Contains(optionalScalars()[t], name) {
				f.fields[name].zero = zeroOf(field.Type, nil)
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

func (n Types) ofField(t reflect.Type, optional bool) *fieldFilter {
	f := &fieldFilter{inner: n.find(t)}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		f.dropNull = true // what is not required is never encoded as null
	case reflect.Struct:
		f.dropNull = true // a zero time
		if optional {
			f.zero = zeroOf(t, f.inner)
		}
	}
	return f
}

// zeroOf returns the canonical JSON of a type's zero value, filtered by f.
func zeroOf(t reflect.Type, f *Filter) []byte {
	b, err := json.Marshal(reflect.New(t).Interface())
	if err != nil {
		return nil // an unset value of a type whose zero value has no JSON is not encoded
	}
	return f.append(nil, b)
}

// encodesItself reports whether a type has its own JSON encoder, so that its fields are irrelevant.
func encodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

func indirectType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
