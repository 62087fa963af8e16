package placement

import (
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Supposition is a state in which one policy is replaced: the preview of a write.
type Supposition struct {
	State table.Reader
	// Policy is the Placement or Customizer, and Row its new row; nil: deleted.
	Policy key.Object
	Row    *table.Row
	// Compilers are those of the Engine.
	Compilers
	// Most bounds how many objects are evaluated, in the order of keys.
	Most int
}

// Derive calls fn for the objects that the policy can affect, with the Memberships that an Engine
// derives for the changed state. These are the objects of the policy's space or, for a policy of
// root, of all spaces. The Memberships belong to another Engine than those of the rows, so only
// their content can be compared. whole is false if there are more than Most objects.
//
// For a policy of another space than root, the Memberships do not consider objects of other spaces.
// So they have no conflicts of identities; foreign definitions and the consumers of a CRD are as in
// the rows.
//
// Derive recomputes everything with its own Engine, which reads only the relevant objects. It only
// reads the state, so any goroutine may call it. Its cost is in proportion to the number of
// objects.
func (s Supposition) Derive(fn func(o key.Object, row *table.Row, now *Membership)) (whole bool) {
	seen := supposed{Reader: s.State, key: s.Policy.Key(), row: s.Row, scope: key.SpacePrefix(s.Policy.Space)}
	deciding := []string{key.SpacePrefix(key.Root), seen.scope}
	if s.Policy.Space == key.Root {
		seen.scope = key.Objects.Prefix()
		deciding = []string{seen.scope}
	}
	var objects []*table.Row
	whole = true
	seen.Ascend(seen.scope, func(row *table.Row) bool {
		if decides(row.Key) {
			return true
		}
		if len(objects) >= s.Most {
			seen.end, whole = row.Key, false
			return false
		}
		objects = append(objects, row)
		return true
	})
	var changes []table.Change
	for _, prefix := range deciding {
		seen.Ascend(prefix, func(row *table.Row) bool {
			if decides(row.Key) {
				changes = append(changes, table.Change{Cur: row})
			}
			return true
		})
	}
	for _, row := range objects {
		changes = append(changes, table.Change{Cur: row})
	}
	e := New()
	e.Compilers = s.Compilers
	if s.Policy.Space != key.Root {
		e.supposeConsumers(s.State, objects)
	}
	derived := map[string]*Membership{}
	for _, a := range e.Derive(seen, changes) {
		derived[a.Key], _ = a.In.(*Membership)
	}
	for _, row := range objects {
		if o, err := key.ParseObject(row.Key); err == nil {
			now := derived[row.Key]
			if old, ok := row.In.(*Membership); ok && old != nil && now != nil && s.Policy.Space != key.Root {
				now = e.memberships.withForeignFrom(now, old, &e.sets)
			}
			fn(o, row, now)
		}
	}
	return whole
}

// withForeignFrom returns a membership with the foreign definitions and the consumers of the old
// one.
func (ms *memberships) withForeignFrom(m, old *Membership, sets *locationSets) *Membership {
	shared := old.shared
	if shared != nil {
		shared = sets.intern(shared.names, nil)
	}
	return ms.intern(draft{m.sources, m.releases, m.rules, m.gate, m.upsyncing, shared, m.returning, m.health, m.leaves}, foreignState{m.owners, old.foreign})
}

// decides reports whether a key belongs to a policy or another object of Orrery's API group, which
// is never placed.
func decides(k string) bool {
	if !strings.Contains(k, "/"+key.Placements.Group+"/") { // cheaper than parsing the key
		return false
	}
	o, err := key.ParseObject(k)
	return err == nil && o.Resource.Group == key.Placements.Group
}

// supposed is a Reader in which the row of one key is replaced. Unless end is empty, it omits the
// objects of a scope from the key end on.
type supposed struct {
	table.Reader
	key        string
	row        *table.Row
	scope, end string
}

// Get implements table.Reader.
func (s supposed) Get(k string) *table.Row {
	if k == s.key {
		return s.row
	}
	return s.Reader.Get(k)
}

// Ascend implements table.Reader.
func (s supposed) Ascend(prefix string, fn func(*table.Row) bool) {
	more, due := true, s.row != nil && strings.HasPrefix(s.key, prefix)
	s.Reader.Ascend(prefix, func(row *table.Row) bool {
		if due && row.Key >= s.key {
			due, more = false, fn(s.row)
		}
		if !more || row.Key == s.key || s.end != "" && row.Key >= s.end && strings.HasPrefix(row.Key, s.scope) && !decides(row.Key) {
			return more
		}
		more = fn(row)
		return more
	})
	if due && more {
		fn(s.row)
	}
}
