package write

import (
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// All lists root and all other spaces, including those that are being deleted.
func All(s table.Reader) []key.Space {
	all := []key.Space{key.Root}
	s.Ascend(key.ResourcePrefix(key.Root, key.Spaces), func(row *table.Row) bool {
		if o, err := key.ParseObject(row.Key); err == nil {
			all = append(all, key.Space(o.Name))
		}
		return true
	})
	return all
}

// Exists reports whether a space can be used: it exists and is not being deleted.
func Exists(t *table.Table, s key.Space) bool {
	if s == key.Root {
		return true
	}
	row, _ := t.Get(s.Key())
	return row != nil && !row.Meta.Deleting
}
