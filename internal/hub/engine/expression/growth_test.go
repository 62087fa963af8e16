package expression

import (
	"strings"
	"testing"
)

// TestGrowth refuses rules whose values grow with each list that they lie in, and no others.
func TestGrowth(t *testing.T) {
	again := func(begin, step string, n int) string { return begin + strings.Repeat(step, n) }
	for rule, want := range map[string]bool{
		again("[0]", ".map(a, [a, a])", 24) + ".all(a, a == a)":                         false,
		again("[self]", ".map(a, {'x': a, 'y': a})", 10) + ".all(a, a != a)":            false,
		again("[[self]]", ".map(a, a + a)", 24) + ".exists(a, a in [a])":                false,
		again("self.l", ".map(a, [a, a])", 24) + ".size() > 0":                          false,
		"self.l.all(x, " + again("[x]", ".map(a, [a, a])", 24) + ".exists(a, a == a))":  false,
		again("[0]", ".transformList(i, a, [a, a])", 24) + " == []":                     false,
		again("cel.bind(a, [self], cel.bind(b, ", "[a] + ", 210) + "a, b))":             false,
		again("optional.of(self)", ".optMap(a, [a, a])", 24) + ".hasValue()":            false,
		again("[0]", ".filter(b, true).map(a, a == 1, [a, a])", 24) + " == []":          false,
		again("[0]", ".map(a, [a, a].reverse())", 24) + " == []":                        false,
		again("[0]", ".map(a, true ? [a, a] : [])", 24) + " == []":                      false,
		again("[0]", ".map(a, self.l.map(x, a))", 4) + ".all(z, [z] == [z])":            false,
		again("[0]", ".map(a, self.l.map(x, a))", 12) + ".all(z, {'k': z} == {'k': z})": false,

		"self.min <= self.max && self.items.all(x, x.name != '' && x.value in ['a', 'b', 'c'])":          true,
		"self.items.map(x, [x.key, x.value]).all(p, self.items.exists(q, [q.key, q.value] == p))":        true,
		"self.items.map(x, {'key': x.key, 'value': x.value}) == oldSelf.items.map(x, {'key': x.key})":    true,
		"self.l.map(x, x + '-' + self.suffix).sortBy(x, x).join(',') == self.text":                       true,
		"self.size in [" + again("1", ", 1", 500) + "]":                                                  true,
		"{" + again("'a': ['x', 'y']", ", 'b': ['x']", 50) + "}[self.kind].exists(x, x == self.size)":    true,
		"'a' + " + again("self.a", " + ', ' + string(self.a)", 60):                                       true,
		"self.a.map(x, self.b.map(y, self.c.map(z, x + y + z))).flatten().all(s, s.matches('^[a-z]+$'))": true,
		"self +": true, // for others to refuse
		again("cel.bind(a, ", "cel.bind(a, ", 80) + "1" + again("", ", a)", 81): true, // nor does it take long
	} {
		if err := CheckGrowth(rule); (err == nil) != want {
			t.Errorf("%.100s has the error %v", rule, err)
		}
	}
}
