package read

import (
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// called returns the namespace and the name that a row's object has in the view.
func (l display) called(row *table.Row) (namespace, name string) {
	if !l.wide.Spaces {
		return nameOf(l.placing, row)
	}
	return l.wide.ObjectName("", objectOf(row))
}

// objectOf returns the object in a row's key.
func objectOf(row *table.Row) key.Object {
	s, r, rest, _ := key.Split(row.Key)
	o := key.Object{Space: s, Identity: key.Identity{Resource: r}}
	o.Namespace, o.Name = key.SplitName(rest)
	return o
}

// widened returns the JSON of a row's object with its wide name. It does not change the row.
func (l display) widened(row *table.Row) ([]byte, error) {
	value := row.Value
	metadata := gjson.GetBytes(value, "metadata")
	if !metadata.IsObject() || metadata.Index == 0 {
		return nil, fmt.Errorf("object %q has no metadata", row.Key)
	}
	namespace, name := l.called(row)
	fields := []field{{"name", name}}
	if namespace != "" {
		fields = append(fields, field{"namespace", namespace})
	}
	b := append(make([]byte, 0, len(value)+256), value[:metadata.Index]...)
	b = encoded(append(b, '{'), fields)
	var err error
	metadata.ForEach(func(name, v gjson.Result) bool {
		switch raw := v.Raw; name.Str {
		case "name", "namespace", "annotations":
		case "ownerReferences":
			raw, err = l.owners(row, v)
			fallthrough
		default:
			b = append(append(append(append(b, ','), name.Raw...), ':'), raw...)
		}
		return err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("show the owners of %q: %w", row.Key, err)
	}
	b = annotate(append(b, `,"annotations":`...), metadata.Get("annotations"), coordinates(row))
	return append(append(b, '}'), value[metadata.Index+len(metadata.Raw):]...), nil
}

// coordinates are the annotations with the space, namespace and name of an object.
func coordinates(row *table.Row) []field {
	o := objectOf(row)
	all := []field{{v1alpha1.SpaceAnnotation, string(o.Space)}, {v1alpha1.SourceNameAnnotation, o.Name}}
	if o.Namespace != "" {
		all = append(all, field{v1alpha1.SourceNamespaceAnnotation, o.Namespace})
	}
	return all
}

// annotate appends annotations with added ones, which replace existing ones of the same name.
func annotate(b []byte, original gjson.Result, add []field) []byte {
	b = encoded(append(b, '{'), add)
	if original.IsObject() {
		original.ForEach(func(name, value gjson.Result) bool {
			if n := name.String(); n != v1alpha1.SourceNamespaceAnnotation && !slices.ContainsFunc(add, func(f field) bool { return f.name == n }) {
				b = append(append(append(append(b, ','), name.Raw...), ':'), value.Raw...)
			}
			return true
		})
	}
	return append(b, '}')
}

// owners returns the owner references with the names that owners have in the view. Owners in a
// namespace keep their names.
func (l display) owners(row *table.Row, all gjson.Result) (raw string, err error) {
	raw = all.Raw
	for i, owner := range all.Array() {
		if !isClustered(l.clustered, owner) {
			continue
		}
		_, name := l.wide.ObjectName("", key.Object{Space: spaceOf(row), Identity: key.Identity{Name: owner.Get("name").String()}})
		if raw, err = sjson.Set(raw, fmt.Sprint(i, ".name"), name); err != nil {
			return "", fmt.Errorf("name owner %d: %w", i, err)
		}
	}
	return raw, nil
}

// spaceColumn follows the kind's own columns in tables of several spaces.
func spaceColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Space", Type: "string", Description: "The space of the object."}
}
