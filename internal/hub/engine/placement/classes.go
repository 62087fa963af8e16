package placement

import (
	"cmp"
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ClassesOf returns a function that computes the class of an object at a location, whether or not
// the object is assigned to it. At assigned locations, the class is equal to that of the Membership
// that an Engine with these rules derives. ClassesOf only reads the state, so any goroutine may
// call it. The function that it returns is not safe for concurrent use.
func ClassesOf(state table.Reader, object key.Object, row *table.Row, rules RulesOf) func(location *table.Row) *Class {
	var all []*customizer
	s := subject{Object: object, row: row, state: state}
	for name, policy := range policyRows(state, object.Space, key.Customizers) {
		if c := compileCustomizer(state, object.Space, name, policy, rules); c != nil && c.rules.text != "" && c.matches(s) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *customizer) int { return cmp.Compare(a.rules.priority, b.rules.priority) })
	own := ownInput(state, object, row, rules)
	known := map[string]*Class{}
	m, _ := row.In.(*Membership)
	return func(location *table.Row) *Class {
		loc := siteOf(location)
		if loc == nil {
			return nil
		}
		class := &Class{Inputs: own(loc)}
		if m != nil && m.Contains(loc.Name) {
			class.Definition, class.Shared = m.definedAt(loc.Name), m.sharedAt(loc.Name)
		}
		for _, c := range all {
			if !c.selects(loc) || len(class.Inputs) >= maxInputs {
				continue
			}
			in := Input{Rules: c.rules.text}
			if c.needs != nil {
				in.Needs = c.needs(loc.Site)
			}
			class.Inputs = append(class.Inputs, in)
		}
		if class.Inputs == nil && class.Definition == nil && !class.Shared {
			return nil
		}
		k := class.String()
		if known[k] == nil {
			known[k] = class
		}
		return known[k]
	}
}
