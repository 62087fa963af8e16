package placement

import (
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// templates holds the objects with templates in their texts, which are rules. Objects of a space
// whose templates use the same values share a template.
type templates struct {
	// byObject is keyed by the key of the object, byText by space and text.
	byObject map[string]*template
	byText   map[key.Space]map[string]*template
}

// template holds the values of a space and of locations that the templates of some objects use.
type template struct {
	effect
	needs func(loc Site) string
	// objects are the keys of the objects with this template.
	objects map[string]struct{}
}

// expands reports whether an object's texts are templates.
func expands(o key.Object, row *table.Row) bool {
	return row != nil && row.Meta.InsertAnnotation != 0 && Never(o.Resource) == "" && row.Annotation(v1alpha1.ExpandAnnotation) == "true"
}

// ownRules returns the rules from the templates of an object.
func ownRules(state table.Getter, o key.Object, row *table.Row, rules RulesOf) Rules {
	if rules == nil || !expands(o, row) {
		return Rules{}
	}
	return rules(Customized{Space: o.Space, Labels: labelsOf(state.Get(o.Space.Key())), Object: row.Value})
}

// ownInput returns a function that computes the input of these rules for a location.
func ownInput(state table.Reader, o key.Object, row *table.Row, rules RulesOf) func(loc *site) []Input {
	own := ownRules(state, o, row, rules)
	return func(loc *site) []Input {
		if own.Text == "" {
			return nil
		}
		in := Input{Rules: own.Text}
		if own.Needs != nil {
			in.Needs = own.Needs(loc.Site)
		}
		return []Input{in}
	}
}

// readTemplates records the templates of an object and reports whether they have changed; row is
// nil if the object does not exist.
func (s *step) readTemplates(o key.Object, row *table.Row) (changed bool) {
	k := o.Key()
	own, old := s.preparedTemplates.Take(row, func() Rules { return ownRules(s.state, o, row, s.Rules) }), s.templates.byObject[k]
	if old == nil && own.Text == "" || old != nil && old.text == own.Text {
		return false
	}
	if old != nil {
		delete(s.templates.byObject, k)
		if delete(old.objects, k); len(old.objects) == 0 {
			if delete(s.templates.byText[o.Space], old.text); len(s.templates.byText[o.Space]) == 0 {
				delete(s.templates.byText, o.Space)
			}
		}
	}
	if own.Text == "" {
		return true
	}
	t := s.templates.byText[o.Space][own.Text]
	if t == nil {
		t = &template{effect: newEffect(own.Text), needs: own.Needs, objects: map[string]struct{}{}}
		if t.needs != nil {
			needs := map[key.Location]string{}
			for name, loc := range s.locations {
				needs[name] = t.needs(loc.Site)
			}
			t.locations = s.sets.internMap(needs)
		}
		if s.templates.byText[o.Space] == nil {
			s.templates.byText[o.Space] = map[string]*template{}
		}
		s.templates.byText[o.Space][own.Text] = t
	}
	s.templates.byObject[k], t.objects[k] = t, struct{}{}
	return true
}

// readTemplatesAgain calls readTemplates for all objects of a space whose labels have changed.
func (s *step) readTemplatesAgain(space key.Space) {
	var keys []string
	for _, t := range s.templates.byText[space] {
		for k := range t.objects {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if o, err := key.ParseObject(k); err == nil && s.readTemplates(o, s.state.Get(k)) {
			s.reaches(reach{prefix: k})
		}
	}
}

// moveTemplates updates the needs of templates for changed locations.
func (s *step) moveTemplates(moved []key.Location) {
	for _, all := range s.templates.byText {
		for _, t := range all {
			if t.needs == nil {
				continue
			}
			old := t.locations
			for _, name := range moved {
				if loc := s.locations[name]; loc == nil {
					t.locations = s.sets.without(t.locations, name)
				} else {
					t.locations = s.sets.with(t.locations, name, t.needs(loc.Site))
				}
			}
			if t.locations == old {
				continue
			}
			for k := range t.objects {
				s.reaches(reach{prefix: k})
			}
		}
	}
}
