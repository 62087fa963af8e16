package placement

import (
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// templates has the objects whose texts have templates, which are rules of their own.
// Objects of a space whose templates use the same share a template.
type templates struct {
	// of has them by the keys of objects, and in by space and text.
	of map[string]*template
	in map[key.Space]map[string]*template
}

// template is what some objects' templates use of a space and of locations.
type template struct {
	effect
	needs func(at Site) string
	// objects are the keys of those that have it.
	objects map[string]struct{}
}

// expands says that an object's own texts are rules.
func expands(o key.Object, row *table.Row) bool {
	return row != nil && row.Meta.InsertAnnotation != 0 && Never(o.Resource) == "" && row.Annotation(v1alpha1.ExpandAnnotation) == "true"
}

// ownRules are the rules that are templates in the object of a row.
func ownRules(state table.Reader, o key.Object, row *table.Row, rules RulesOf) Rules {
	if rules == nil || !expands(o, row) {
		return Rules{}
	}
	return rules(Customized{Space: o.Space, Labels: labelsOf(state.Get(o.Space.Key())), Object: row.Value})
}

// ownInput gives, for a location, the input of these, if there are any.
func ownInput(state table.Reader, o key.Object, row *table.Row, rules RulesOf) func(at *site) []Input {
	own := ownRules(state, o, row, rules)
	return func(at *site) []Input {
		if own.Text == "" {
			return nil
		}
		in := Input{Rules: own.Text}
		if own.Needs != nil {
			in.Needs = own.Needs(at.Site)
		}
		return []Input{in}
	}
}

// readTemplates notes which templates an object has; row is nil if it is gone. It says
// whether they are others than before.
func (s *step) readTemplates(o key.Object, row *table.Row) (changed bool) {
	k := o.Key()
	own, was := ownRules(s.state, o, row, s.Rules), s.templates.of[k]
	if was == nil && own.Text == "" || was != nil && was.text == own.Text {
		return false
	}
	if was != nil {
		delete(s.templates.of, k)
		if delete(was.objects, k); len(was.objects) == 0 {
			if delete(s.templates.in[o.Space], was.text); len(s.templates.in[o.Space]) == 0 {
				delete(s.templates.in, o.Space)
			}
		}
	}
	if own.Text == "" {
		return true
	}
	t := s.templates.in[o.Space][own.Text]
	if t == nil {
		t = &template{effect: newEffect(own.Text), needs: own.Needs, objects: map[string]struct{}{}}
		if t.needs != nil {
			needs := map[key.Location]string{}
			for name, at := range s.locations {
				needs[name] = t.needs(at.Site)
			}
			t.locations = s.sets.ofMap(needs)
		}
		if s.templates.in[o.Space] == nil {
			s.templates.in[o.Space] = map[string]*template{}
		}
		s.templates.in[o.Space][own.Text] = t
	}
	s.templates.of[k], t.objects[k] = t, struct{}{}
	return true
}

// readTemplatesAgain is readTemplates for all objects of a space, whose labels have changed.
func (s *step) readTemplatesAgain(space key.Space) {
	var keys []string
	for _, t := range s.templates.in[space] {
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

// moveTemplates updates what templates need of locations that have changed.
func (s *step) moveTemplates(moved []key.Location) {
	for _, all := range s.templates.in {
		for _, t := range all {
			if t.needs == nil {
				continue
			}
			was := t.locations
			for _, name := range moved {
				if at := s.locations[name]; at == nil {
					t.locations = s.sets.without(t.locations, name)
				} else {
					t.locations = s.sets.with(t.locations, name, t.needs(at.Site))
				}
			}
			if t.locations == was {
				continue
			}
			for k := range t.objects {
				s.reaches(reach{prefix: k})
			}
		}
	}
}
