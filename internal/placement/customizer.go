package placement

import (
	"cmp"
	"crypto/sha256"
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
	// them; key is short, and the same for the same paths.
	releases, key string
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
	var paths []string
	for i, rule := range spec.Rules {
		if _, err := customize.Parse(rule.Path); err != nil {
			c.problems = append(c.problems, fmt.Sprintf("rules[%d].path: %v", i, err))
		} else if rule.Release {
			paths = append(paths, rule.Path)
		}
	}
	c.releases = customize.Join(paths)
	sum := sha256.Sum256([]byte(c.releases))
	c.key = string(sum[:])
	return c
}

// matches says whether the customizer is about an object.
func (c *customizer) matches(s subject) bool {
	return slices.ContainsFunc(c.tests, func(t objectTest) bool { return t.fails(s) == "" })
}

// release is what is released of an object at some locations.
type release struct {
	paths     string       // as a wire.Policy has them
	key       string       // short, and the same for the same paths
	locations *locationSet // nil: everywhere
}

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
			all = append(all, release{c.releases, c.key, c.set})
		}
	}
	slices.SortFunc(all, func(a, b release) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.id(), b.id()))
	})
	return slices.Compact(all)
}

// released adds up releases at each of some locations; each is nil if it is the
// same at all. It is done once for many objects, and so that locations with the
// same releases share a text.
func released(releases []release, locations []string) (all string, each []string) {
	var everywhere, some []release
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
	in, there := make([]byte, len(some)), []release(nil)
	for i, l := range locations {
		there = append(there[:0], everywhere...)
		for j, r := range some {
			has := r.locations.has(l)
			if in[j] = bit(has); has {
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

func join(all []release) string {
	var paths []string
	for _, r := range all {
		paths = append(paths, strings.Split(r.paths, "\n")...)
	}
	return customize.Join(paths)
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
