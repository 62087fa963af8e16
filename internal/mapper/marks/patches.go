package marks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/apis/v1alpha1"
)

// Only is a patch that makes the marks of an object those of the body of an apply.
func Only(body []byte) ([]byte, error) {
	var err error
	only := []byte(`{}`)
	marks := []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}
	for field, names := range markNames {
		for _, name := range names {
			marks = append(marks, "metadata."+field+"."+strings.ReplaceAll(name, ".", `\.`))
		}
	}
	for _, path := range marks {
		if v := gjson.GetBytes(body, path); v.Exists() {
			if only, err = sjson.SetRawBytes(only, path, []byte(v.Raw)); err != nil {
				return nil, fmt.Errorf("make body of marks: %w", err)
			}
		}
	}
	for _, name := range []string{v1alpha1.OnRemoveAnnotation, v1alpha1.LogAnnotation} {
		none := "metadata.annotations." + strings.ReplaceAll(name, ".", `\.`)
		if gjson.GetBytes(only, none).Exists() {
			continue
		}
		if only, err = sjson.SetRawBytes(only, none, []byte("null")); err != nil {
			return nil, fmt.Errorf("make body of marks: %w", err)
		}
	}
	return only, nil
}

// markNames are all marks, by the map they are in.
var markNames = map[string][]string{
	"labels": {v1alpha1.LocationLabel, v1alpha1.SpaceLabel},
	"annotations": {
		v1alpha1.SourceKindAnnotation, v1alpha1.SourceNamespaceAnnotation, v1alpha1.SourceNameAnnotation,
		v1alpha1.SourceUIDAnnotation, v1alpha1.OnRemoveAnnotation, v1alpha1.LogAnnotation, v1alpha1.ImpliedAnnotation,
	},
}

// othersFields are the managed fields without what the location has applied, also as it
// was before it was made again.
func othersFields(all []ManagedFields, l Owner) []ManagedFields {
	var others []ManagedFields
	for _, f := range all {
		if f.Manager != l.Manager() && !l.Former(f.Manager) && !f.AppliedBy(ReleasedManager) {
			others = append(others, f)
		}
	}
	return others
}

// orNone are managed fields as an API server takes them: one empty entry for
// none, and no entry for those that it has.
func orNone(all []ManagedFields) []ManagedFields {
	if len(all) == 0 {
		return []ManagedFields{{}}
	}
	return all
}

// patch is the body of a merge into an object that is as it was when m was read.
func patch(m *Meta, fields map[string]any) any {
	fields["uid"], fields["resourceVersion"] = m.UID, m.ResourceVersion
	return map[string]any{"metadata": fields}
}

// LetGo removes the location's marks and managed fields from the object that m was
// read from, and changes nothing else.
func LetGo(m *Meta, l Owner) any {
	fields := map[string]any{"managedFields": orNone(othersFields(m.ManagedFields, l))}
	for field, names := range markNames {
		gone := map[string]any{}
		for _, name := range names {
			gone[name] = nil
		}
		fields[field] = gone
	}
	return patch(m, fields)
}

// SetFields replaces the managed fields of the object that m was read from, and changes
// nothing else.
func SetFields(m *Meta, all []ManagedFields) any {
	return patch(m, map[string]any{"managedFields": orNone(all)})
}

// SetPair writes a place in the log at an object that has the UID and is as it was at
// a version, and changes nothing else.
func SetPair(uid, version string, log Pair) any {
	return patch(&Meta{UID: uid, ResourceVersion: version}, map[string]any{
		"annotations": map[string]any{v1alpha1.LogAnnotation: log.String()},
	})
}

// TakeOver makes the fields of an object this location's that were those of one of its
// name before: else what is no longer desired of them would stay. What that one wrote
// otherwise than by applies are marks, which the next apply owns. moved says that there
// are any.
func TakeOver(all []ManagedFields, l Owner) (fields []ManagedFields, moved bool) {
	mine := slices.ContainsFunc(all, func(f ManagedFields) bool { return f.AppliedBy(l.Manager()) })
	for _, f := range all {
		if l.Former(f.Manager) {
			moved = true
			if mine || !f.AppliedBy(f.Manager) {
				continue
			}
			f.Manager, mine = l.Manager(), true
		}
		fields = append(fields, f)
	}
	return fields, moved
}
