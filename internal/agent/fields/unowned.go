package fields

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/lib/fieldset"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// plainPath matches the path of a field outside lists, metadata and the like.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$`)

// Unowned returns those of some paths at which an object at the target has a value that has no field manager and
// that its source does not write, though it writes the parent field. Such values are defaults for earlier values
// of the source. object is the source, there the object at the target.
func Unowned(paths []string, object []byte, there *ownership.Answer) (unowned []string, err error) {
	owned := fieldpath.NewSet()
	for i := range there.Metadata.ManagedFields {
		set := fieldpath.NewSet()
		f := &there.Metadata.ManagedFields[i]
		if len(f.FieldsV1) == 0 {
			continue
		}
		if err := set.FromJSON(bytes.NewReader(f.FieldsV1)); err != nil {
			return nil, fmt.Errorf("decode managed fields: %w", err)
		}
		owned = owned.Union(set)
	}
	for _, path := range paths {
		names := strings.Split(path, ".")
		switch parent := strings.Join(names[:len(names)-1], "."); {
		case !plainPath.MatchString(path), names[0] == "metadata", names[0] == "status", slices.Contains(unowned, path):
		case !gjson.Get(there.JSON, path).Exists(), gjson.GetBytes(object, path).Exists(), !gjson.GetBytes(object, parent).IsObject():
		case !owns(owned, names):
			unowned = append(unowned, path)
		}
	}
	return unowned, nil
}

// owns reports whether a set has a field, one inside it, or one that contains it and is owned as one value.
func owns(set *fieldpath.Set, names []string) bool {
	for _, name := range names {
		element := fieldpath.FieldNameElement(name)
		if !fieldset.Contains(set, element) {
			return false
		}
		if set = set.WithPrefix(element); set.Empty() {
			return true
		}
	}
	return true
}

// Claim returns the managed fields of an object, in which the manager has applied also the values at some paths.
// So its next apply removes them. It returns false if the manager has applied nothing.
func Claim(paths []string, there *ownership.Answer, manager string) (entries []ownership.ManagedFields, ok bool, err error) {
	entries = slices.Clone(there.Metadata.ManagedFields)
	i := slices.IndexFunc(entries, func(f ownership.ManagedFields) bool { return f.AppliedBy(manager) && len(f.FieldsV1) > 0 })
	if i < 0 {
		return nil, false, nil
	}
	set := fieldpath.NewSet()
	if err := set.FromJSON(bytes.NewReader(entries[i].FieldsV1)); err != nil {
		return nil, false, fmt.Errorf("decode managed fields: %w", err)
	}
	for _, path := range paths {
		var p fieldpath.Path
		for name := range strings.SplitSeq(path, ".") {
			p = append(p, fieldpath.FieldNameElement(name))
		}
		insert(set, p, gjson.Get(there.JSON, path))
	}
	if entries[i].FieldsV1, err = set.ToJSON(); err != nil {
		return nil, false, fmt.Errorf("encode managed fields: %w", err)
	}
	return entries, true, nil
}

// insert adds the fields of a value to a set. A list is added as one field.
func insert(set *fieldpath.Set, p fieldpath.Path, v gjson.Result) {
	if !v.IsObject() || len(p) > maxDepth {
		set.Insert(p)
		return
	}
	empty := true
	v.ForEach(func(name, in gjson.Result) bool {
		empty = false
		insert(set, append(p.Copy(), fieldpath.FieldNameElement(name.Str)), in)
		return true
	})
	if empty {
		set.Insert(p)
	}
}
