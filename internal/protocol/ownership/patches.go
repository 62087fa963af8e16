package ownership

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/apis/v1alpha1"
)

// Only returns a merge patch that sets the ownership metadata of an object to that in the body of
// an apply, with the preconditions of the body. It changes nothing else.
func Only(body []byte) ([]byte, error) {
	var err error
	only := []byte(`{}`)
	paths := []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}
	for field, names := range markNames {
		for _, name := range names {
			paths = append(paths, "metadata."+field+"."+strings.ReplaceAll(name, ".", `\.`))
		}
	}
	for _, path := range paths {
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

// markNames contains the names of all ownership metadata, by the field of metadata that they are
// in.
var markNames = map[string][]string{
	"labels": {v1alpha1.LocationLabel, v1alpha1.SpaceLabel},
	"annotations": {
		v1alpha1.SourceKindAnnotation, v1alpha1.SourceNamespaceAnnotation, v1alpha1.SourceNameAnnotation,
		v1alpha1.SourceUIDAnnotation, v1alpha1.OnRemoveAnnotation, v1alpha1.ServiceAccountAnnotation, v1alpha1.LogAnnotation,
		v1alpha1.ImpliedAnnotation, v1alpha1.TakenFromAnnotation,
	},
}

// othersFields returns the managed fields without those of the location, of earlier locations of
// its name, and of ReleasedManager.
func othersFields(all []ManagedFields, l Owner) []ManagedFields {
	var others []ManagedFields
	for _, f := range all {
		if f.Manager != l.Manager() && !l.Former(f.Manager) && !f.AppliedBy(ReleasedManager) {
			others = append(others, f)
		}
	}
	return others
}

// orNone returns managed fields as an API server accepts them: one empty entry means none, since an
// empty list means no change.
func orNone(all []ManagedFields) []ManagedFields {
	if len(all) == 0 {
		return []ManagedFields{{}}
	}
	return all
}

// patch returns a merge patch of metadata that fails if the object has changed since m was read.
func patch(m *Meta, fields map[string]any) any {
	fields["uid"], fields["resourceVersion"] = m.UID, m.ResourceVersion
	return map[string]any{"metadata": fields}
}

// LetGo returns a patch that removes the location's ownership metadata and managed fields from the
// object that m was read from, and changes nothing else.
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

// SetFields returns a patch that replaces the managed fields of the object that m was read from,
// and changes nothing else.
func SetFields(m *Meta, all []ManagedFields) any {
	return patch(m, map[string]any{"managedFields": orNone(all)})
}

// SetPair returns a patch that writes a log position to the object with the UID and
// resourceVersion, and changes nothing else.
func SetPair(uid, version string, log Pair) any {
	return patch(&Meta{UID: uid, ResourceVersion: version}, map[string]any{
		"annotations": map[string]any{v1alpha1.LogAnnotation: log.String()},
	})
}

// TakeOver moves the managed fields of an earlier location of the name to this location; otherwise
// the next apply would not remove fields that are no longer desired. Entries that the earlier
// location did not apply contain only ownership metadata, which the next apply owns; they are
// dropped. moved reports whether there are fields of an earlier location.
func TakeOver(all []ManagedFields, l Owner) (fields []ManagedFields, moved bool) {
	return takeOver(all, l, l.Former)
}

// takeOver is TakeOver for all managers for which former returns true.
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
