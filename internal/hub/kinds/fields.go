package kinds

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	nameLabel      = "metadata.name"
	namespaceLabel = "metadata.namespace"
)

// SelectableFields returns the labels of an object and the fields by which it
// can be selected. The object is of the Hub version, or unstructured.
func (k *Kind) SelectableFields(obj runtime.Object) (labels.Set, fields.Set, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("select %s: %w", k.GVK.Kind, err)
	}
	set := fields.Set{nameLabel: m.GetName(), namespaceLabel: m.GetNamespace()}
	if len(k.Selectable) == 0 {
		return m.GetLabels(), set, nil
	}
	content := reflect.ValueOf(obj)
	if u, ok := obj.(runtime.Unstructured); ok {
		content = reflect.ValueOf(u.UnstructuredContent())
	}
	for _, s := range k.Selectable {
		set[s.Label] = s.value(func(path string) string { return lookup(content, path) })
	}
	return m.GetLabels(), set, nil
}

// StoredFields returns the same fields for a stored value, without decoding all of it.
func (k *Kind) StoredFields(value []byte) fields.Set {
	m := gjson.GetManyBytes(value, nameLabel, namespaceLabel)
	set := fields.Set{nameLabel: m[0].String(), namespaceLabel: m[1].String()}
	for _, s := range k.Selectable {
		set[s.Label] = s.value(func(path string) string { return gjson.GetBytes(value, path).String() })
	}
	return set
}

// CheckFields refuses a selector that names a field by which this kind cannot
// be selected.
func (k *Kind) CheckFields(selector fields.Selector) error {
	for _, r := range selector.Requirements() {
		if err := CheckLabel(k.GVK.GroupKind(), k.Selectable, r.Field); err != nil {
			return err
		}
	}
	return nil
}

// CheckLabel refuses a field by which objects of a kind cannot be selected.
func CheckLabel(kind schema.GroupKind, selectable []Selectable, label string) error {
	if label == nameLabel || label == namespaceLabel ||
		slices.ContainsFunc(selectable, func(s Selectable) bool { return s.Label == label }) {
		return nil
	}
	return UnknownLabel(kind, selectable, label)
}

func (s Selectable) value(lookup func(path string) string) string {
	for _, path := range []string{s.Path, s.Else} {
		if path == "" {
			continue
		}
		if v := lookup(path); v != "" {
			return v
		}
	}
	return s.Absent
}

// UnknownLabel returns the error for an unknown field of a selector, with the message of Kubernetes,
// which depends on the kind.
func UnknownLabel(k schema.GroupKind, selectable []Selectable, label string) error {
	switch {
	case len(selectable) == 0:
		_, _, err := runtime.DefaultMetaV1FieldSelectorConversion(label, "")
		return err
	case k == schema.GroupKind{Group: "batch", Kind: "Job"}:
		return fmt.Errorf("field label %q not supported for Job", label)
	case k == schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceSlice"}:
		return fmt.Errorf("field label not supported for %s/v1, Kind=%s: %s", k.Group, k.Kind, label)
	}
	return fmt.Errorf("field label not supported: %s", label)
}

// lookup follows JSON names through structs and maps, and returns the scalar at the end as text; ""
// if there is none.
func lookup(v reflect.Value, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		v = jsonField(indirect(v), name)
		if !v.IsValid() {
			return ""
		}
	}
	v = indirect(v)
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	default:
		return ""
	}
}

func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// jsonField returns the field of a struct, or the value in a map, that has a JSON name.
func jsonField(v reflect.Value, name string) reflect.Value {
	switch v.Kind() {
	case reflect.Map:
		return v.MapIndex(reflect.ValueOf(name))
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == name {
				return v.Field(i)
			}
			if tag == "" && f.Anonymous {
				if inner := jsonField(indirect(v.Field(i)), name); inner.IsValid() {
					return inner
				}
			}
		}
	}
	return reflect.Value{}
}
