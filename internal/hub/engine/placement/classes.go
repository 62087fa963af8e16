package placement

import (
	"cmp"
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ClassesOf gives the class of an object at a location, by the location's row, whether or
// not the object is assigned to it; where it is, in agreement with the membership that an
// Engine with these rules derived for the state. It only reads the state, so any goroutine
// may call it; what it returns is for one.
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
		at := siteOf(location)
		if at == nil {
			return nil
		}
		class := &Class{Inputs: own(at)}
		if m != nil && m.Has(at.Name) {
			class.Definition, class.Shared = m.definedAt(at.Name), m.sharedAt(at.Name)
		}
		for _, c := range all {
			if !c.selects(at) || len(class.Inputs) >= maxInputs {
				continue
			}
			in := Input{Rules: c.rules.text}
			if c.needs != nil {
				in.Needs = c.needs(at.Site)
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
