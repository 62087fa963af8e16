package schemacost

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"orrery.dev/orrery/test/support/cost"
)

// ruled is the schema of an object with a list of objects, two lists of texts and a rule.
func ruled(t testing.TB, rule string) *Schema {
	t.Helper()
	length := int64(63)
	text := apiextensions.JSONSchemaProps{Type: "string", MaxLength: &length}
	long := apiextensions.JSONSchemaProps{Type: "string"}
	list := func(items apiextensions.JSONSchemaProps) apiextensions.JSONSchemaProps {
		return apiextensions.JSONSchemaProps{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &items}}
	}
	item := apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"key": text, "value": long, "m": list(long),
	}}
	s, err := structuralschema.NewStructural(&apiextensions.JSONSchemaProps{
		Type: "object", XValidations: apiextensions.ValidationRules{{Rule: rule}},
		Properties: map[string]apiextensions.JSONSchemaProps{
			"items": list(item), "l": list(long), "n": list(apiextensions.JSONSchemaProps{Type: "integer"}), "group": text, "template": item,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return New(s)
}

// TestComparisonsAreCounted: what a rule compares in each round of a loop counts as often as it is compared,
// by the size of the object. Rules as people write them take no more than the object itself does.
func TestComparisonsAreCounted(t *testing.T) {
	const items = 4000
	object := map[string]any{"group": "g"}
	var all, texts []any
	for range items {
		all = append(all, map[string]any{"key": "k", "value": "v"})
		texts = append(texts, "x")
	}
	object["items"], object["l"] = all, texts
	for rule, refused := range map[string]bool{
		"self.l.map(x, self) == self.l.map(x, self)":                           true,
		"self.n.map(x, self) != self.n.map(x, oldSelf)":                        true,
		"self.l.all(x, self == oldSelf)":                                       true,
		"self.l.all(x, [self] == [self])":                                      true,
		"self.l.all(x, self.items == self.items)":                              true,
		"self.l.all(x, {'a': self.items} == {'a': self.items})":                true,
		"self.items.all(x, self.items.all(y, x == y))":                         true,
		"self.items.all(x, self.l.all(y, x.m == x.m))":                         true,
		"self.items.map(x, self) in [self.l.map(x, self)]":                     true,
		"cel.bind(a, self.l.map(x, self.items), a == a)":                       true,
		"sets.equivalent(self.items, self.items)":                              true,
		"self.l.map(x, self.l).map(y, y) == self.l.map(x, self.l)":             true,
		"self.items.map(x, x.m.map(y, x)) == self.items.map(x, x.m.map(y, x))": true,
		"self.items.all(x, self.template.m.map(y, self).all(z, z == oldSelf))": true,
		"self.l.transformList(i, x, self) == self.l.transformList(i, x, self)": true,
		"self == oldSelf": false,
		"self.items == oldSelf.items && self.l == oldSelf.l":                                      false,
		"self.items.all(x, x.key != '' && x.value in ['a', 'b', 'c'])":                            false,
		"self.items.all(x, self.items.exists_one(y, y.key == x.key))":                             false,
		"self.items.all(x, x == self.template)":                                                   false,
		"self.items.map(x, {'key': x.key, 'g': self.group}) == oldSelf.items.map(x, {'key': ''})": false,
		"self.items.map(x, x.key) == oldSelf.items.map(x, x.key)":                                 false,
		"self.l.all(x, x in oldSelf.l)":                                                           false,
		"self.items.all(x, self.items.filter(y, y.key == x.key).size() == 1)":                     false,
		"self.items.all(x, !has(x.value) || x.value == self.group)":                               false,
		"self.items.map(x, x.value).isSorted()":                                                   false,
		"self +":                                                                                  false, // for others to refuse
	} {
		steps, err := ruled(t, rule).Steps(t.Context(), object, most)
		if err != nil {
			t.Fatal(err)
		}
		if (steps > MaxSteps) != refused {
			t.Errorf("%s: %d steps", rule, steps)
		}
		if small, _ := ruled(t, rule).Steps(t.Context(), map[string]any{"items": all[:10], "l": texts[:10]}, most); small > MaxSteps/100 {
			t.Errorf("%s: %d steps for a small object", rule, small)
		}
	}
}

// TestMadeValuesAreCounted: what a rule makes by itself and compares counts, too, however small the object is. A hub
// refuses such a CRD, but an older one may have stored it.
func TestMadeValuesAreCounted(t *testing.T) {
	for levels, want := range map[int]bool{4: false, 24: true, 28: true, 40: true} {
		rule := "[0]" + strings.Repeat(".map(a, [a, a])", levels) + ".all(a, a == a)"
		steps, err := ruled(t, rule).Steps(t.Context(), map[string]any{}, most)
		if err != nil || (steps > MaxSteps) != want {
			t.Errorf("%d levels take %d steps, %v", levels, steps, err)
		}
	}
}

// TestUsualRulesFit: rules that compare the items of a list with each other fit an object of a usual size.
func TestUsualRulesFit(t *testing.T) {
	var items []any
	for range 100 {
		items = append(items, map[string]any{"key": "k", "m": []any{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"}})
	}
	object := map[string]any{"items": items}
	for _, rule := range []string{
		"oldSelf.items.all(x, x in self.items)", "oldSelf.items.all(x, self.items.exists(y, x == y))", "self.items.all(x, self.items.exists_one(y, y == x))",
		"self.items.all(x, !oldSelf.items.exists(y, y.key == x.key) || oldSelf.items.exists(y, y.key == x.key && y.m == x.m))",
	} {
		if steps, err := ruled(t, rule).Steps(t.Context(), object, most); err != nil || steps > MaxSteps/2 {
			t.Errorf("%s: %d steps, %v", rule, steps, err)
		}
	}
}

// FuzzRules checks that the count of a rule ends within bounded memory for every text, and that it is
// larger for a larger value.
func FuzzRules(f *testing.F) {
	for _, rule := range []string{
		"self.l.map(x, self) == self.l.map(x, self)", "self.items.all(x, self.items.all(y, x == y))", "cel.bind(a, self.l, a == a)",
		"self.l.map(a, self.l.map(b, self.l.map(c, self.l.map(d, self.l.map(e, self.l.map(f, self.l.map(g, a == g)))))))",
		"[0]" + strings.Repeat(".map(a, [a, a])", 40) + ".all(a, a == a)", "self.l" + strings.Repeat(".map(a, self.l)", 40) + " == []",
		"sets.contains(self.items, [1])", "self.?a.optMap(x, [x]).orValue([]) == []", "{'a': self}.map(k, self).size() > 0", "self.l[0] in [self]",
	} {
		f.Add(rule)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		used := cost.Allocated(func() {
			for _, r := range rulesOf(nil, apiextensionsv1.ValidationRules{{Rule: text}}) {
				if small, large := r.steps(size{10, 3}), r.steps(size{1000, 100}); small > large || small < 0 {
					t.Errorf("%q: %v steps for a small value, %v for a large one", text, small, large)
				}
			}
		})
		if used > 64<<20 {
			t.Errorf("%q takes %d bytes to count", text, used)
		}
	})
}
