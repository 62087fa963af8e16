package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/test/support/scenario"
)

// TestScenarios runs testdata/*.txtar. The files of an archive are YAML:
//
//	object           an object as it travels
//	template         an object whose texts are expanded
//	space            the space: name, labels
//	customizer NAME  the spec of a Customizer: priority, rules
//	location NAME    a location: labels, properties
//	configmap NS/N   the data of a ConfigMap; without any: there is no such ConfigMap any more
//	NAME gets        what the location is expected to get
//	NAME is held     why it is expected to keep what it has
//	NAME is traced   the expected effect of each rule there, before and after
//	refused          what is expected to be refused of the Customizers, one per line
//
// An expectation is about all that comes before it; a Customizer that comes again replaces
// the one before.
func TestScenarios(t *testing.T) {
	e := newEngine(t)
	scenario.Run(t, func(t *testing.T) scenario.Step {
		s := &scenarioState{T: t, engine: e, space: Space{Name: "shop"}, customizers: customizers{}, locations: map[string]Location{}, configMaps: map[string]string{}}
		return s.step
	})
}

func newEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// customizers are the specs of Customizers by name.
type customizers map[string]v1alpha1.CustomizerSpec

// order is in which order they are in force.
func (cs customizers) order() []string {
	var names []string
	for name := range cs {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(cs[a].Priority, cs[b].Priority), cmp.Compare(a, b)) })
	return names
}

// gets is what a location gets of an object.
func (cs customizers) gets(e *Engine, object []byte, s Space, l Location) ([]byte, error) {
	return e.Apply(object, cs.inputs(e, s, l, nil))
}

// inputs are those of a location, where there are ConfigMaps with some data.
func (cs customizers) inputs(e *Engine, s Space, l Location, configMaps map[string]string) (inputs []Input) {
	for _, name := range cs.order() {
		var data []Data
		for _, d := range cs[name].Data {
			source := d.ConfigMap.Namespace + "/" + d.ConfigMap.Name
			data = append(data, Data{d.Name, source, configMaps[source]})
		}
		p := e.Prepare(name, s, cs[name].Rules, data...)
		if p.Text != "" {
			inputs = append(inputs, p.input(l))
		}
	}
	return inputs
}

// effects are what rules do to an object at a location.
func (s *scenarioState) effects(l Location) (text string) {
	effects, err := s.engine.Trace(s.Context(), s.object, s.inputs(l))
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range effects {
		text += fmt.Sprintf("%s[%d] %s\n", e.Customizer, e.Rule, e.Path)
		for _, c := range e.Changes {
			text += fmt.Sprintf("  %s: %s -> %s\n", c.Path, cmp.Or(string(c.Before), "nothing"), cmp.Or(string(c.After), "nothing"))
		}
		if e.Omitted > 0 {
			text += fmt.Sprintf("  and %d more\n", e.Omitted)
		}
		if e.Error != "" {
			text += "  fails: " + e.Error + "\n"
		}
	}
	return text
}

// scenarioState is the state of a scenario.
type scenarioState struct {
	*testing.T
	engine      *Engine
	object      []byte
	space       Space
	customizers customizers
	locations   map[string]Location
	configMaps  map[string]string
	// expands reports whether the object's texts are expanded.
	expands bool
}

// inputs are those of a location.
func (s *scenarioState) inputs(l Location) []Input {
	all := s.customizers.inputs(s.engine, s.space, l, s.configMaps)
	if s.expands {
		if p := s.engine.Templates(s.space, s.object); p.Text != "" {
			all = slices.Insert(all, 0, p.input(l))
		}
	}
	return all
}

func (p Prepared) input(l Location) Input {
	in := Input{Text: p.Text}
	if p.Needs != nil {
		in.Needs = p.Needs(l)
	}
	return in
}

func (s *scenarioState) step(words []string, data []byte) (got string, expects bool) {
	words = append(words, "", "", "")
	switch {
	case words[0] == "object" || words[0] == "template":
		s.object, s.expands = s.canonical(data), words[0] == "template"
	case words[0] == "space":
		s.read(data, &s.space)
	case words[0] == "customizer":
		var spec v1alpha1.CustomizerSpec
		s.read(data, &spec)
		s.customizers[words[1]] = spec
	case words[0] == "location":
		l := struct {
			Labels     map[string]string
			Properties any
		}{}
		s.read(data, &l)
		s.locations[words[1]] = Location{words[1], l.Labels, propertiesText(l.Properties)}
	case words[0] == "configmap":
		if s.configMaps[words[1]] = ""; len(strings.TrimSpace(string(data))) > 0 {
			s.configMaps[words[1]] = string(s.canonical(data))
		}
	case words[0] == "refused":
		for _, name := range s.customizers.order() {
			var names []string
			for _, d := range s.customizers[name].Data {
				names = append(names, d.Name)
			}
			for _, err := range s.engine.Check(s.customizers[name].Rules, field.NewPath(name, "rules"), names...) {
				got += err.Error() + "\n"
			}
		}
		if s.expands {
			tree, err := expression.Decode(s.object)
			if err != nil {
				s.Fatal(err)
			}
			for _, err := range s.engine.CheckTemplates(tree.(map[string]any)) {
				got += err.Error() + "\n"
			}
		}
		return got, true
	case words[1] == "gets" || words[1] == "is":
		l, ok := s.locations[words[0]]
		if !ok {
			l = Location{Name: words[0]}
		}
		if words[2] == "traced" {
			return s.effects(l), true
		}
		made, err := s.engine.Apply(s.object, s.inputs(l))
		if err != nil {
			return err.Error() + "\n", true
		}
		shown, err := yaml.JSONToYAML(made)
		if err != nil {
			s.Fatal(err)
		}
		if again := s.canonical(made); string(again) != string(made) {
			s.Errorf("%s is not canonical, but\n%s", made, again)
		}
		return string(shown), true
	default:
		s.Fatalf("unknown step %q", words)
	}
	return "", false
}

func propertiesText(properties any) string {
	if properties == nil {
		return ""
	}
	return string(expression.Encode(properties))
}

func (s *scenarioState) read(data []byte, into any) {
	s.Helper()
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		s.Fatal(err)
	}
}

func (s *scenarioState) canonical(data []byte) []byte {
	s.Helper()
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		s.Fatal(err)
	}
	tree, err := expression.Decode(asJSON)
	if err != nil {
		s.Fatal(err)
	}
	return expression.Encode(tree)
}
