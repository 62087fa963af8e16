package ownership

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/apis/v1alpha1"
)

// Only returns a merge patch that sets the marks of an object to those in the body of an
// apply, with the body's preconditions, and changes nothing else.
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
	for _, name := range []string{v1alpha1.OnRemoveAnnotation, v1alpha1.ServiceAccountAnnotation, v1alpha1.LogAnnotation} {
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

// markNames are the names of all marks, by the field of metadata that they are in.
var markNames = map[string][]string{
	"labels": {v1alpha1.LocationLabel, v1alpha1.SpaceLabel},
	"annotations": {
		v1alpha1.SourceKindAnnotation, v1alpha1.SourceNamespaceAnnotation, v1alpha1.SourceNameAnnotation,
		v1alpha1.SourceUIDAnnotation, v1alpha1.OnRemoveAnnotation, v1alpha1.ServiceAccountAnnotation, v1alpha1.LogAnnotation,
		v1alpha1.ImpliedAnnotation, v1alpha1.TakenFromAnnotation,
	},
}

// othersFields are the managed fields without those of the location, of earlier locations
// of its name, and of ReleasedManager.
func othersFields(all []ManagedFields, l Owner) []ManagedFields {
	var others []ManagedFields
	for _, f := range all {
		if f.Manager != l.Manager() && !l.Former(f.Manager) && !f.AppliedBy(ReleasedManager) {
			others = append(others, f)
		}
	}
	return others
}

// orNone are managed fields as an API server takes them: one empty entry stands for none,
// since it takes an empty list for no change.
func orNone(all []ManagedFields) []ManagedFields {
	if len(all) == 0 {
		return []ManagedFields{{}}
	}
	return all
}

// patch is a merge patch of metadata, for an object that has not changed since m was
// read.
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

// SetPair writes a pair to the object that has the UID and the resourceVersion, and
// changes nothing else.
func SetPair(uid, version string, log Pair) any {
	return patch(&Meta{UID: uid, ResourceVersion: version}, map[string]any{
		"annotations": map[string]any{v1alpha1.LogAnnotation: log.String()},
	})
}

// TakeOver moves the managed fields of an earlier location of the name to this location;
// otherwise those that are no longer desired would stay. Entries that the earlier one did
// not apply have only marks, which the next apply owns; they are dropped. moved says that
// there are any fields of an earlier location.
func TakeOver(all []ManagedFields, l Owner) (fields []ManagedFields, moved bool) {
	return takeOver(all, l, l.Former)
}

// takeOver is TakeOver from the owners whose managers former returns true for.
func takeOver(all []ManagedFields, l Owner, former func(manager string) bool) (fields []ManagedFields, moved bool) {
	mine := slices.ContainsFunc(all, func(f ManagedFields) bool { return f.AppliedBy(l.Manager()) })
	for _, f := range all {
		if former(f.Manager) {
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
