package placement

import (
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Supposition is a state in which one policy is another: what a write of it would give.
type Supposition struct {
	State table.Reader
	// Policy is the Placement or Customizer, and Row what it would be; nil: not there.
	Policy key.Object
	Row    *table.Row
	// Rules are those of the Engine of the state.
	Rules RulesOf
	// Most is how many objects are looked at; those with the first keys.
	Most int
}

// Derive calls fn for the objects that the policy can concern: those of its space, or, if
// that is root, of all; with the Memberships that an Engine derives for the supposed state.
// These are of another Engine than those of the rows: only what they say can be compared.
// Who has a place that several spaces want is not to be read from them: but for a policy of
// root, they know no object of another space; by whose definition objects are to be right,
// and for which spaces a definition is there, is as it is. whole is false if there are more
// objects than may be looked at.
//
// It is a recomputation, by an Engine of its own that is shown what decides about them. It
// only reads the state, so any goroutine may call it; its cost is in proportion to the
// number of objects.
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
	e.Rules = s.Rules
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
			if was, ok := row.In.(*Membership); ok && was != nil && now != nil && s.Policy.Space != key.Root {
				now = e.memberships.beside(now, was, &e.sets)
			}
			fn(o, row, now)
		}
	}
	return whole
}

// beside is a membership with what other spaces have as it was: whose definitions are where,
// and where it is for others.
func (ms *memberships) beside(m, was *Membership, sets *locationSets) *Membership {
	shared := was.shared
	if shared != nil {
		shared = sets.of(shared.names, nil)
	}
	return ms.of(draft{m.sources, m.releases, m.rules, m.gate, m.asked, shared, m.returning, m.leaves}, meeting{m.owners, was.foreign})
}

// decides says of a key whether it is of what decides about objects, and never placed.
func decides(k string) bool {
	if !strings.Contains(k, "/"+key.Placements.Group+"/") { // which costs less than taking the key apart
		return false
	}
	o, err := key.ParseObject(k)
	return err == nil && o.Resource.Group == key.Placements.Group
}

// supposed reads a state in which the row of a key is another, and that has none of the
// objects of a scope from end on, unless that is empty.
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
