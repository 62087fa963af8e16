package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/protocol/rulepath"
	"orrery.dev/orrery/test/support/cost"
	"orrery.dev/orrery/test/support/seeds"
)

const web = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"app":"web"},"name":"web","namespace":"shop"},` +
	`"spec":{"replicas":2,"template":{"spec":{"containers":[{"image":"r/web:1","name":"web"},{"image":"r/log:2","name":"log"}]}}}}`

// berlin has a property of each type.
var berlin = Location{"berlin", map[string]string{"site": "b", "region": "eu"}, `{"a":{"b":{"c":1,"d":[1,{"e":2}]},"f":null},"g":"x","h":{},"i":2.5}`}

func value(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// rules makes a Customizer of rules.
func one(all ...v1alpha1.Rule) customizers {
	return customizers{"c": {Rules: all}}
}

// What is used of a location is all that an expression can tell of it.
func TestNeeds(t *testing.T) {
	e := newEngine(t)
	for expression, want := range map[string]string{
		"1 + 1":                     "",
		"location.name":             `{"name":"berlin"}`,
		"location.labels.site":      `{"labels":{"site":"b"}}`,
		"location.labels['region']": `{"labels":{"region":"eu"}}`,
		"location.labels[?'none']":  `{"labels":{}}`,
		"has(location.labels.none)": `{"labels":{}}`,
		"'x' in location.labels":    `{"labels":{}}`,
		"'site' in location.labels && 'd' in location.properties.a.b": `{"labels":{"site":"b"},"properties":{"a":{"b":{"d":[1,{"e":2}]}}}}`,
		"2 in location.properties.a.b.d":                              `{"properties":{"a":{"b":{"d":[1,{"e":2}]}}}}`,
		"location.name in location.labels":                            `{"labels":{"region":"eu","site":"b"},"name":"berlin"}`,
		"location.properties.a.b.c":                                   `{"properties":{"a":{"b":{"c":1}}}}`,
		"location.properties.a.b.z":                                   `{"properties":{"a":{"b":{}}}}`,
		"location.properties.a.z.c":                                   `{"properties":{"a":{}}}`,
		"location.properties.a.f.c":                                   `{"properties":{"a":{"f":null}}}`,
		"location.properties.g.c.d":                                   `{"properties":{"g":"x"}}`,
		"location.properties.a.b.d[1].e":                              `{"properties":{"a":{"b":{"d":[1,{"e":2}]}}}}`,
		"location.properties.?a.?b.?c":                                `{"properties":{"a":{"b":{"c":1}}}}`,
		"location.properties.a.b.c + location.properties.i":           `{"properties":{"a":{"b":{"c":1}},"i":2.5}}`,
		"has(location.properties.h) ? location.properties.h.x : 1":    `{"properties":{"h":{}}}`,
		"[location].map(l, l.name)":                                   `{"labels":{"region":"eu","site":"b"},"name":"berlin","properties":` + berlin.Properties + `}`,
		"[1].map(location, location)":                                 "",
		"location.properties[location.labels.site]":                   `{"labels":{"site":"b"},"properties":` + berlin.Properties + `}`,
		"{'a': [location.name == 'x' ? location.labels.site : self]}": `{"labels":{"site":"b"},"name":"berlin"}`,
	} {
		p := e.Prepare("c", Space{}, []v1alpha1.Rule{{Path: "$.data.x", Expression: expression}})
		got := ""
		if p.Needs != nil {
			got = p.Needs(berlin)
		}
		if got != want {
			t.Errorf("%s needs %s, want %s", expression, got, want)
		}
		// The outcome is the same with all that there is of the location.
		made, err := e.Apply([]byte(web), []Input{{p.Text, got}})
		all, err2 := e.Apply([]byte(web), []Input{{p.Text, canonical(berlin.values())}})
		if string(made) != string(all) || (err == nil) != (err2 == nil) {
			t.Errorf("%s gives %s %v, with the whole location %s %v", expression, made, err, all, err2)
		}
	}
}

// Texts identify rules: what does not matter is not in them, and what does is.
func TestTexts(t *testing.T) {
	e := newEngine(t)
	text := func(customizer string, s Space, all ...v1alpha1.Rule) string {
		return e.Prepare(customizer, s, all).Text
	}
	released := v1alpha1.Rule{Path: "$.spec.replicas", Release: true}
	if got := text("c", Space{}, released); got != "" {
		t.Errorf("rules that only release have the text %s", got)
	}
	a := v1alpha1.Rule{Path: "$.a", Value: value(`{"x": 1, "y": [2]}`)}
	b := v1alpha1.Rule{Path: "$.a", Value: value(`{"y":[2],"x":1}`)}
	s1, s2 := Space{"s", map[string]string{"k": "1", "l": "1"}}, Space{"t", map[string]string{"k": "1", "l": "2"}}
	if text("c", s1, a) != text("c", s2, b) {
		t.Error("values that are written otherwise, in spaces that are not used, make a difference")
	}
	labelled := v1alpha1.Rule{Path: "$.a", Expression: "space.labels.k"}
	if text("c", s1, labelled) != text("c", s2, labelled) {
		t.Error("what is not used of a space makes a difference")
	}
	labelled.Expression = "space.labels.l"
	if text("c", s1, labelled) == text("c", s2, labelled) {
		t.Error("what is used of a space makes none")
	}
	if text("c", s1, a) == text("d", s1, a) || text("c", s1, a, released) == text("c", s1, released, a) {
		t.Error("whose a rule is, and which one, makes no difference")
	}
	many := v1alpha1.Rule{Path: "$.a", Value: value(`"` + strings.Repeat("x", maxText) + `"`)}
	huge := text("c", s1, many)
	if _, err := e.Apply([]byte(web), []Input{{Text: huge}}); len(huge) > 200 || err == nil || !strings.Contains(err.Error(), errTooLong.Error()) {
		t.Errorf("rules that are too long have a text of %d bytes and give %v", len(huge), err)
	}
	if errs := e.Check([]v1alpha1.Rule{many}, nil); len(errs) != 1 {
		t.Errorf("rules that are too long are refused with %v", errs)
	}
}

// Expressions are compiled once, for all users.
func TestCompiledOnce(t *testing.T) {
	e := newEngine(t)
	all := []v1alpha1.Rule{{Path: "$.a", Expression: "object.kind"}}
	if errs := e.Check(all, nil); errs != nil {
		t.Fatal(errs)
	}
	first, err := e.language.compile("object.kind")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := e.Apply([]byte(web), []Input{{Text: e.Prepare(fmt.Sprint(i), Space{}, all).Text}}); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := e.language.compile("object.kind"); again != first || e.language.programs.Len() != 1 || e.texts.Len() != 10 {
		t.Errorf("%d programs of %d texts", e.language.programs.Len(), e.texts.Len())
	}
}

// The cost of expressions is bounded for each, and for all of an object together.
func TestCostIsBounded(t *testing.T) {
	e := newEngine(t)
	loop := "[1,2,3,4,5,6,7,8,9,10]"
	dear := v1alpha1.Rule{Path: "$.a", Expression: fmt.Sprintf("%s.all(a, %s.all(b, %s.all(c, a * b * c > 0)))", loop, loop, loop)}
	if _, err := one(dear).gets(e, []byte(web), Space{}, berlin); err != nil {
		t.Fatalf("one costs too much: %v", err)
	}
	all := customizers{}
	for i := range rulepath.MaxCustomizers {
		all[fmt.Sprintf("c%03d", i)] = v1alpha1.CustomizerSpec{Rules: []v1alpha1.Rule{dear, dear, dear, dear}}
	}
	var failed *RuleError
	if _, err := all.gets(e, []byte(web), Space{}, berlin); !errors.As(err, &failed) || !strings.Contains(failed.Message, "too much together") {
		t.Errorf("256 are allowed: %v", err)
	}
}

// However little their rules do, Customizers of one object are bounded: each costs something.
func TestCustomizersAreBounded(t *testing.T) {
	e := newEngine(t)
	all := customizers{}
	add := func() {
		all[fmt.Sprintf("c%03d", len(all))] = v1alpha1.CustomizerSpec{Rules: []v1alpha1.Rule{{Path: "$.a", Value: value("1")}}}
	}
	for range rulepath.MaxCustomizers {
		add()
	}
	own := e.Templates(Space{}, []byte(`{"a":"${location.name}"}`)).input(berlin)
	if _, err := e.Apply([]byte(web), append([]Input{own}, all.inputs(e, Space{}, berlin, nil)...)); err != nil {
		t.Errorf("%d are too many: %v", len(all), err)
	}
	add()
	var failed *RuleError
	if _, err := all.gets(e, []byte(web), Space{}, berlin); !errors.As(err, &failed) || failed.Customizer != "c064" || failed.Message != errTooMany.Error() {
		t.Errorf("one more: %v", err)
	}
	if effects, err := e.Trace(t.Context(), []byte(web), all.inputs(e, Space{}, berlin, nil)); err != nil || len(effects) != len(all) || effects[len(effects)-1].Error != errTooMany.Error() {
		t.Errorf("%d rules are told, %v", len(effects), err)
	}
}

// What rules use of ConfigMaps is shared by all renderings, and stays as it is.
func TestDataStaysAsItIs(t *testing.T) {
	e := newEngine(t)
	rules := []v1alpha1.Rule{
		{Path: "$.a", Expression: "data.s"}, {Path: "$.a.x", Value: value(`"changed"`)},
		{Path: "$.b", Expression: "data.t['x'] + data.t[location.name]"}, {Path: "$.c", Expression: "data.t.size()"},
	}
	p := e.Prepare("c", Space{}, rules, Data{"s", "n/s", `{"x":"1"}`}, Data{"t", "n/t", `{"x":"X","berlin":"B","paris":"P"}`})
	for range 2 {
		for _, l := range []Location{berlin, {Name: "paris"}} {
			made, err := e.Apply([]byte(`{"kind":"K"}`), []Input{p.input(l)})
			want := fmt.Sprintf(`{"a":{"x":"changed"},"b":"X%s","c":3,"kind":"K"}`, strings.ToUpper(l.Name[:1]))
			if err != nil || string(made) != want {
				t.Errorf("%s gets %s, %v; want %s", l.Name, made, err, want)
			}
		}
	}
}

// drawRule draws a rule for objects as drawObject draws them; most are accepted.
func drawRule(t *rapid.T) v1alpha1.Rule {
	segment := rapid.SampledFrom([]string{".a", ".b", ".l", "[0]", "[-1]", "[*]", `[?@.a=="x"]`})
	r := v1alpha1.Rule{Path: "$." + rapid.SampledFrom([]string{"a", "b", "spec", "metadata.labels.a"}).Draw(t, "first")}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		r.Path += segment.Draw(t, "part")
	}
	r.OnMissing = rapid.SampledFrom([]v1alpha1.OnMissing{"", v1alpha1.OnMissingFail}).Draw(t, "onMissing")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		r.Remove = true
		return r
	case 1, 2:
		r.Expression = rapid.SampledFrom([]string{
			"self", "object", "location.labels.site", "location.properties", "{'a': self}", "[object.kind, 1, 2.5]",
			"object.map(k, k)", "{'z': 1, 'a': {'q': 1, 'b': 2}}.map(k, k)", "location.properties.map(k, k)",
		}).Draw(t, "expression")
	default:
		r.Value = value(rapid.SampledFrom([]string{`"x"`, `1`, `{"a":"x"}`, `[]`, `[{"a":"x","b":1}]`, `{}`}).Draw(t, "value"))
	}
	if rapid.IntRange(0, 3).Draw(t, "appends") == 0 {
		r.Path += appended
	}
	return r
}

func drawTree(t *rapid.T, depth int) any {
	if depth == 0 {
		return rapid.SampledFrom([]any{"x", "y", true, nil, json.Number("1"), json.Number("2.50")}).Draw(t, "leaf")
	}
	if rapid.Bool().Draw(t, "list") {
		all := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			all = append(all, drawTree(t, depth-1))
		}
		return all
	}
	all := map[string]any{}
	for _, name := range []string{"a", "b", "l", "z"} {
		if rapid.IntRange(0, 2).Draw(t, "has "+name) > 0 {
			all[name] = drawTree(t, depth-1)
		}
	}
	return all
}

func drawObject(t *rapid.T) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Thing",
		"metadata": map[string]any{"name": "x", "namespace": "n", "labels": map[string]any{"a": "b", "orrery.dev/for": "below"}},
		"spec":     drawTree(t, 3), "a": drawTree(t, 2), "b": drawTree(t, 1),
	}
}

// Rules give the same each time, whatever order fields come in and whatever was compiled
// before; the result is canonical and is the same object; what fails changes nothing; and
// a rule that depends on nothing that it changes gives the same when it is applied again.
func TestProperties(t *testing.T) {
	shared := newEngine(t)
	seeds.Check(t, func(t *rapid.T) {
		object := drawObject(t)
		written := expression.Encode(object)
		all := customizers{}
		for _, name := range []string{"c", "d"} {
			spec := v1alpha1.CustomizerSpec{Priority: rapid.Int32Range(-1, 1).Draw(t, "priority")}
			spec.Rules = rapid.SliceOfN(rapid.Custom(drawRule), 0, 4).Draw(t, "rules")
			all[name] = spec
		}
		made, err := all.gets(shared, written, Space{Name: "s"}, berlin)
		var failed *RuleError
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("%v is no failure of a rule", err)
		}
		fresh, err2 := New()
		if err2 != nil {
			t.Fatal(err2)
		}
		again, err2 := all.gets(fresh, backwards(object), Space{Name: "s"}, berlin)
		if string(made) != string(again) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("once\n%s %v\nthen\n%s %v", made, err, again, err2)
		}
		if string(expression.Encode(object)) != string(written) {
			t.Fatal("the object was changed")
		}
		if err != nil {
			return
		}
		tree, err := expression.Decode(made)
		if err != nil || string(expression.Encode(tree)) != string(made) {
			t.Fatalf("%s is not canonical: %v", made, err)
		}
		if err := identityOf(object).check(tree.(map[string]any)); err != nil {
			t.Fatalf("%s: %v", made, err)
		}
	})
	seeds.Check(t, func(t *rapid.T) {
		r := drawRule(t)
		if r.Expression != "" || r.Remove && strings.ContainsAny(r.Path, "0-") {
			return
		}
		r.OnMissing = ""
		made, err := one(r).gets(shared, expression.Encode(drawObject(t)), Space{}, berlin)
		if err != nil {
			return
		}
		if again, err := one(r).gets(shared, made, Space{}, berlin); err != nil || string(again) != string(made) {
			t.Fatalf("%+v makes\n%s, and of that\n%s %v", r, made, again, err)
		}
	})
}

// backwards is JSON with the fields of all objects in the other order.
func backwards(v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		var b strings.Builder
		for name, below := range v {
			segment := fmt.Sprintf("%q:%s", name, backwards(below))
			if rest := b.String(); rest != "" {
				segment += "," + rest
			}
			b.Reset()
			b.WriteString(segment)
		}
		return []byte("{" + b.String() + "}")
	case []any:
		var fields []string
		for _, e := range v {
			fields = append(fields, string(backwards(e)))
		}
		return []byte("[" + strings.Join(fields, ",") + "]")
	}
	return expression.Encode(v)
}

// maxFuzzed bounds the bytes that a fuzzed rule or template allocates, besides those for a large object.
const maxFuzzed = 256 << 20

// Users write paths, expressions and values: none may crash the hub, take much memory, or make another
// object of one.
func FuzzRules(f *testing.F) {
	for _, seed := range [][3]string{
		{"$.spec.template.spec.containers[*].image", "location.labels.site + self", ""},
		{"$.spec.template.spec.containers[+]", "", `{"name":"x"}`},
		{`$.metadata.annotations["a/b"]`, "", `"x"`},
		{"$.spec", "object.map(k, [k, k]).flatten()", ""},
		{"$.a.b[0].c", "optional.of(quantity('1Gi').add(quantity('1')))", ""},
		{"$.x[-1]", "location.properties.?a.?b.orValue({1: 2})", ""},
		{"$.x", "duration('1h') + duration('1s')", "1e400"},
		{"$.x", "b'abc'", "-0"},
		{"$.x", "[0]" + strings.Repeat(".map(a, [a, a])", 40) + ".map(a, string(a == a))[0]", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], web)
	}
	e, kind := newEngine(f), builtinSchema(f, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	f.Fuzz(func(t *testing.T, path, source, text, object string) {
		tree, err := expression.Decode([]byte(object))
		before, ok := tree.(map[string]any)
		if err != nil || !ok {
			return
		}
		r := v1alpha1.Rule{Path: path, Expression: source}
		if text != "" && json.Valid([]byte(text)) {
			r.Value = value(text)
		}
		if a, b := e.CheckTypes(r, kind, nil), e.CheckTypes(r, kind, nil); (a == nil) != (b == nil) {
			t.Fatalf("%+v is found to be %v, then %v", r, a, b)
		}
		id := identityOf(before)
		refused := e.Check([]v1alpha1.Rule{r}, nil)
		var made []byte
		if used := cost.Allocated(func() { made, err = one(r).gets(e, []byte(object), Space{Name: "s"}, berlin) }); used > maxFuzzed+uint64(100*len(object)) {
			t.Fatalf("%+v takes %d bytes", r, used)
		}
		if refused != nil && err == nil {
			t.Fatalf("%+v is refused, and followed: %v", r, refused)
		}
		if err != nil {
			return
		}
		again, _ := one(r).gets(e, []byte(object), Space{Name: "s"}, berlin)
		after, err := expression.Decode(made)
		if err != nil || string(again) != string(made) || id.check(after.(map[string]any)) != nil {
			t.Fatalf("%+v makes %s (%v), then %s", r, made, err, again)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	e := newEngine(b)
	for name, c := range map[string]customizers{
		"value":      one(v1alpha1.Rule{Path: "$.spec.replicas", Value: value("5")}),
		"expression": one(v1alpha1.Rule{Path: "$.spec.template.spec.containers[*].image", Expression: "location.labels.site + '/' + self"}),
		"five": one(
			v1alpha1.Rule{Path: "$.spec.template.spec.containers[*].image", Expression: "location.labels.site + self.substring(self.indexOf('/'))"},
			v1alpha1.Rule{Path: "$.spec.replicas", Expression: "location.properties.a.b.c"},
			v1alpha1.Rule{Path: "$.metadata.labels.site", Expression: "location.labels.site"},
			v1alpha1.Rule{Path: "$.spec.template.spec.nodeSelector.zone", Value: value(`"a"`)},
			v1alpha1.Rule{Path: "$.spec.template.spec.containers[+]", Value: value(`{"name":"proxy","image":"proxy:1"}`)}),
	} {
		b.Run(name, func(b *testing.B) {
			p := e.Prepare("c", Space{}, c["c"].Rules)
			in := []Input{{Text: p.Text}}
			if p.Needs != nil {
				in[0].Needs = p.Needs(berlin)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Apply([]byte(web), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renders/s")
		})
	}
}

// BenchmarkBudget is an object that costs all that it may: what a user can have the hub do
// for one rendering.
func BenchmarkBudget(b *testing.B) {
	e := newEngine(b)
	var all []v1alpha1.Rule
	for range 16 {
		all = append(all, v1alpha1.Rule{Path: "$.a", Expression: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, a * b * c > 0)))"})
	}
	in := []Input{{Text: e.Prepare("c", Space{}, all).Text}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Apply([]byte(web), in); err == nil {
			b.Fatal("the budget is not used up")
		}
	}
}

// TestDepthIsBounded: whatever rules nest, receivers can decode the result.
func TestDepthIsBounded(t *testing.T) {
	e := newEngine(t)
	const deeper = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[object.a]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
	all := customizers{}
	for i := range 40 {
		var spec v1alpha1.CustomizerSpec
		for range 16 {
			spec.Rules = append(spec.Rules, v1alpha1.Rule{Path: "$.a", Expression: deeper})
		}
		all[fmt.Sprintf("c%02d", i)] = spec
	}
	var failed *RuleError
	if _, err := all.gets(e, []byte(`{"a":1}`), Space{}, berlin); !errors.As(err, &failed) || !strings.Contains(err.Error(), "in each other") {
		t.Errorf("%.200v", err)
	}
}
