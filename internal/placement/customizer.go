package placement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/customize"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// customizer is one compiled Customizer.
type customizer struct {
	scope
	// releases are the paths of the values that it releases, as a wire.Policy has
	// them.
	releases string
}

// compileCustomizer reads a Customizer's row, which names it by its key; nil if
// it is gone or going.
func compileCustomizer(name string, row *table.Row) *customizer {
	if row == nil || row.Meta.Deleting {
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
	c.note()
	var released []string
	for i, rule := range spec.Rules {
		if _, err := customize.Parse(rule.Path); err != nil {
			c.problems = append(c.problems, fmt.Sprintf("rules[%d].path: %v", i, err))
		} else if rule.Release {
			released = append(released, rule.Path)
		}
	}
	c.releases = customize.Join(released)
	return c
}

// matches says whether the customizer is about an object.
func (c *customizer) matches(s subject) bool {
	return slices.ContainsFunc(c.tests, func(t objectTest) bool { return t.fails(s) == "" })
}

// release is what is released of an object at some locations.
type release struct {
	paths     string       // as a wire.Policy has them
	locations *locationSet // nil: everywhere
}

func (r release) at(location string) bool { return r.locations == nil || r.locations.has(location) }

// id is a different number for each set of locations.
func (r release) id() uint64 {
	if r.locations == nil {
		return 0
	}
	return r.locations.id
}

// releasesOf is what the Customizers of an object's space release of it, each
// once and in an order that does not depend on the Customizers' names.
func (e *Engine) releasesOf(s subject) []release {
	var all []release
	for _, c := range e.customizers[s.Space] {
		if c.releases != "" && c.matches(s) {
			all = append(all, release{c.releases, c.set})
		}
	}
	slices.SortFunc(all, func(a, b release) int {
		return cmp.Or(strings.Compare(a.paths, b.paths), cmp.Compare(a.id(), b.id()))
	})
	return slices.Compact(all)
}

// ProblemsOf are the entries of a Customizer's spec that can't be used, and why;
// ok is false when it is gone or going. It reads the state only, so any goroutine
// may call it.
func ProblemsOf(state table.Reader, space key.Space, name string) (problems []string, ok bool) {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.Customizers, Name: name}}
	c := compileCustomizer(name, state.Get(o.Key()))
	if c == nil {
		return nil, false
	}
	return c.problems, true
}
