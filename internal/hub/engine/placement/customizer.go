package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/rulepath"
)

// customizer is one compiled Customizer.
type customizer struct {
	scope
	// releases holds the paths whose values are released, in the format of wire.Policy. rules holds
	// the rules that change renderings. Both apply at the locations of the scope's set.
	releases, rules effect
	// data are the keys of the ConfigMaps that its rules use.
	data []string
	// changes describes the rules that do not release.
	changes []string
}

// compileCustomizer compiles the row of a Customizer; nil if it is not in effect. rules may be nil.
func compileCustomizer(state table.Getter, space key.Space, name string, row *table.Row, rules RulesOf) *customizer {
	if !acts(row) {
		return nil
	}
	c := &customizer{scope: scope{name: name, spec: specOf(row)}}
	var spec v1alpha1.CustomizerSpec
	if c.spec != "" {
		if err := json.Unmarshal([]byte(c.spec), &spec); err != nil {
			c.problems = append(c.problems, fmt.Sprintf("spec: %v", err))
			return c
		}
	}
	c.everywhere = len(spec.Locations) == 0
	c.locations = compileLocations("locations", spec.Locations)
	for i, test := range spec.Match {
		c.tests = append(c.tests, compileTest(fmt.Sprintf("match[%d]", i), test))
	}
	c.noteProblems()
	var paths []string
	for i, rule := range spec.Rules {
		if !rule.Release {
			c.changes = append(c.changes, describeRule(i, rule))
		} else if _, err := rulepath.Parse(rule.Path); err == nil {
			paths = append(paths, rule.Path)
		} else if rules == nil { // otherwise rules reports it among its problems
			c.problems = append(c.problems, fmt.Sprintf("rules[%d].path: %v", i, err))
		}
	}
	c.releases = newEffect(rulepath.Join(paths))
	for _, d := range spec.Data {
		c.data = append(c.data, key.Object{Space: space, Identity: key.Identity{Resource: key.ConfigMaps, Namespace: d.ConfigMap.Namespace, Name: d.ConfigMap.Name}}.Key())
	}
	if rules != nil {
		followed := rules(Customized{Space: space, Labels: labelsOf(state.Get(space.Key())), Name: name, Spec: &spec, Data: dataOf(state, c.data)})
		c.rules = newEffect(followed.Text)
		c.rules.priority = spec.Priority
		if followed.Text != "" {
			c.needs = followed.Needs
		}
		c.problems = append(c.problems, followed.Problems...)
	}
	return c
}

// dataOf returns the data of some ConfigMaps, by their keys, as JSON; empty if there is no such
// ConfigMap.
func dataOf(state table.Getter, keys []string) []string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = dataTextOf(state.Get(k))
	}
	return all
}

// dataTextOf returns the data of a ConfigMap's row, which may be nil.
func dataTextOf(row *table.Row) string {
	if row == nil {
		return ""
	}
	if data := gjson.GetBytes(row.Value, "data"); data.IsObject() {
		return data.Raw
	}
	return "{}"
}

// describeRule describes a rule that does not release.
func describeRule(i int, rule v1alpha1.Rule) string {
	switch {
	case rule.Remove:
		return fmt.Sprintf("rules[%d] removes %s", i, rule.Path)
	case rule.Expression != "":
		return fmt.Sprintf("rules[%d] sets %s by an expression", i, rule.Path)
	}
	return fmt.Sprintf("rules[%d] sets %s", i, rule.Path)
}

func newEffect(text string) effect {
	if text == "" {
		return effect{}
	}
	sum := sha256.Sum256([]byte(text))
	return effect{text: text, key: string(sum[:])}
}

// matches reports whether the customizer matches an object.
func (c *customizer) matches(s subject) bool {
	for i := range c.tests {
		if c.tests[i].fit(s) {
			return true
		}
	}
	return false
}

// effectsOn returns the effects of the space's Customizers on an object. releases are sorted and
// without duplicates, so that they do not depend on the names of Customizers. rules are ordered by
// priority, then name.
func (e *Engine) effectsOn(s subject) (releases, rules []effect) {
	for _, c := range e.customizers[s.Space] {
		if c.releases.text == "" && c.rules.text == "" || !c.matches(s) {
			continue
		}
		if c.releases.text != "" {
			releases = append(releases, effect{text: c.releases.text, key: c.releases.key, locations: c.set})
		}
		if c.rules.text != "" {
			rules = append(rules, effect{c.rules.text, c.rules.key, c.set, c.rules.priority})
		}
	}
	slices.SortFunc(releases, compareEffects)
	slices.SortStableFunc(rules, func(a, b effect) int { return cmp.Compare(a.priority, b.priority) })
	if own := e.templates.byObject[s.row.Key]; own != nil { // before all others
		rules = slices.Insert(rules, 0, own.effect)
	}
	return slices.Compact(releases), rules
}

// released joins the released paths at each location. If they are the same everywhere, each is nil
// and all holds them. Locations with the same paths share a string. The result is interned with the
// Membership, so this runs once for many objects.
func released(releases []effect, locations []key.Location) (all string, each []string) {
	var everywhere, some []effect
	for _, r := range releases {
		if r.locations == nil {
			everywhere = append(everywhere, r)
		} else {
			some = append(some, r)
		}
	}
	all = join(everywhere)
	if len(some) == 0 {
		return all, nil
	}
	each = make([]string, len(locations))
	texts := map[string]string{}
	in, there := make([]byte, len(some)), []effect(nil)
	for i, l := range locations {
		there = append(there[:0], everywhere...)
		for j, r := range some {
			isIn := r.locations.contains(l)
			if in[j] = bit(isIn); isIn {
				there = append(there, r)
			}
		}
		text, ok := texts[string(in)]
		if !ok {
			text = join(there)
			texts[string(in)] = text
		}
		each[i] = text
	}
	return "", each
}

func join(all []effect) string {
	var paths []string
	for _, r := range all {
		paths = append(paths, strings.Split(r.text, "\n")...)
	}
	return rulepath.Join(paths)
}

// ProblemsOf returns the errors in a Customizer's spec. ok is false if the Customizer does not
// exist or is being deleted. ProblemsOf only reads the state, so any goroutine may call it. rules
// are those of the Engine.
func ProblemsOf(state table.Reader, space key.Space, name string, rules RulesOf) (problems []string, ok bool) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.Customizers, Name: name}}
	c := compileCustomizer(state, space, name, state.Get(o.Key()), rules)
	if c == nil {
		return nil, false
	}
	return c.problems, true
}
