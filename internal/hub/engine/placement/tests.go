package placement

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Tests are compiled object tests for packages that match objects as Placements do. An object
// matches if any of the tests matches it. Tests are immutable.
type Tests struct {
	tests  []objectTest
	weight int
}

// CompileTests compiles the tests of a field. problems describes those that cannot be used; they
// match nothing.
func CompileTests(field string, tests []v1alpha1.ObjectTest) (t Tests, problems []string) {
	for i, test := range tests {
		compiled := compileTest(fmt.Sprintf("%s[%d]", field, i), test)
		if compiled.problem != "" {
			problems = append(problems, compiled.problem)
		}
		t.tests = append(t.tests, compiled)
		t.weight++
		for _, s := range slices.Concat(test.NamespaceSelectors, test.LabelSelectors) {
			t.weight += selectors.WeightOf(&s).Requirements
		}
	}
	return t, problems
}

// Weight returns the number of tests plus the requirements of their label selectors.
func (t Tests) Weight() int { return t.weight }

// Match reports whether an object with a row matches in a state.
func (t Tests) Match(state table.Reader, o key.Object, row *table.Row) bool {
	for i := range t.tests {
		if t.tests[i].fit(subject{Object: o, row: row, state: state}) {
			return true
		}
	}
	return false
}

// ByNamespace reports whether a test depends on the labels of namespaces.
func (t Tests) ByNamespace() bool {
	for i := range t.tests {
		if t.tests[i].byNamespace {
			return true
		}
	}
	return false
}

// Prefixes calls fn for key prefixes of a space that contain all objects that may match. They may
// overlap.
func (t Tests) Prefixes(s key.Space, fn func(prefix string)) {
	for i := range t.tests {
		t.tests[i].reach(s, "", func(r reach) { fn(r.prefix) })
	}
}
