package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/test/support/cost"
)

// Objects whose templates use the same have equal texts, and different needs others.
func TestTemplateTexts(t *testing.T) {
	e := newEngine(t)
	s1, s2 := Space{"s", map[string]string{"k": "1"}}, Space{"t", map[string]string{"k": "1"}}
	text := func(s Space, template string) string {
		return e.Templates(s, []byte(`{"kind":"X","data":{"a":"`+template+`"},"status":{"b":"${location.labels.region}"}}`)).Text
	}
	if got := text(s1, "x"); got != "" {
		t.Errorf("no template has the text %s", got)
	}
	if text(s1, "${location.name}") != text(s2, "<${'a' + location.name}>") || text(s1, "$${x}") != text(s1, "${'x'}") {
		t.Error("what templates do not use makes a difference")
	}
	if text(s1, "${location.name}") == text(s1, "${location.labels.a}") || text(s1, "${space.name}") == text(s2, "${space.name}") || text(s1, "${space.labels.k}") != text(s2, "${space.labels.k}") {
		t.Error("what templates use makes no difference, or other than it should")
	}
	if p := e.Templates(s1, []byte(`{"a":["${location.name}",{"b":"${location.properties.a.b.c}"}]}`)); p.Needs(berlin) != `{"name":"berlin","properties":{"a":{"b":{"c":1}}}}` {
		t.Errorf("needs %s", p.Needs(berlin))
	}
}

// What the templates of an object cost is bounded, together and for each.
func TestTemplatesAreBounded(t *testing.T) {
	e := newEngine(t)
	loop := "[1,2,3,4,5,6,7,8,9,10]"
	dear := fmt.Sprintf("${%s.all(a, %s.all(b, %s.all(c, a * b * c > 0)))}", loop, loop, loop)
	for name, c := range map[string]struct{ text, want string }{
		"many":             {strings.Repeat("${1}", maxTemplates), ""},
		"too many":         {strings.Repeat("${1}", maxTemplates+1), "may have 64 expressions"},
		"too long":         {strings.Repeat("${"+strings.Repeat(" ", expression.MaxLength-2)+"1}", 1) + strings.Repeat("${'"+strings.Repeat("x", expression.MaxLength/2)+"'}", 8), "may have 64 expressions"},
		"one is too long":  {"${'" + strings.Repeat("x", expression.MaxLength) + "'}", "longer than"},
		"dear together":    {strings.Repeat(dear, maxTemplates), "too much together"},
		"escapes are free": {strings.Repeat("$${1}", 1000), ""},
		"large":            {strings.Repeat("${object.x}", maxTemplates), "add more than"},
	} {
		object := expression.Encode(map[string]any{"a": c.text, "x": strings.Repeat("y", 100_000)})
		p := e.Templates(Space{}, object)
		_, err := e.Apply(object, []Input{p.input(berlin)})
		var failed *TemplateError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &failed) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Finding templates takes as long as the object is large, however they
// are written.
func TestTemplatesInLargeTexts(t *testing.T) {
	e := newEngine(t)
	for name, text := range map[string]string{
		"open": strings.Repeat("${", 200_000), "quotes": "${" + strings.Repeat("'", 400_000), "braces": "${" + strings.Repeat("{", 400_000),
		"escapes": strings.Repeat("$${", 200_000), "empty": strings.Repeat("${}", 200_000),
	} {
		start := processTime(t)
		object := expression.Encode(map[string]any{"a": text})
		_, err := e.Apply(object, []Input{e.Templates(Space{}, object).input(berlin)})
		if took := processTime(t) - start; took > 20*time.Second {
			t.Errorf("%s takes %s of the CPU: %v", name, took, err)
		}
	}
}

// Users write templates: none may crash the hub, take much memory, change what an object is, or mean one
// thing when it is checked and another when it is expanded.
func FuzzTemplates(f *testing.F) {
	for _, seed := range []string{
		"${location.name}", "a${'}'}b", "$${x}", "${", "${{'a': 1}}", `${r'\'}`, "${'''}'''}", "${object.data}", "${location.properties}",
		"${quantity('1Gi')}", "${self}", "${data.a.b}", "${}", "$$${1}", "${'a'}$${${1}", "${b'x'}", "${'\\''}", "${dyn(null)}", "${1 // }\n}",
	} {
		f.Add(seed, "b")
	}
	f.Add("${[0]"+strings.Repeat(".map(a,[a,a])", 40)+".map(a,string(a==a))[0]}", "b")
	f.Add("${"+strings.Repeat("'${", 1000), strings.Repeat("${object}", 100))
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		object := map[string]any{
			"apiVersion": a, "kind": b, "metadata": map[string]any{"name": a, "namespace": b, "annotations": map[string]any{"x": a, "orrery.dev/source-uid": b, b: a}},
			"data": map[string]any{"a": a, b: b, "l": []any{a, map[string]any{a: b}}}, "status": a,
		}
		written := expression.Encode(object)
		tree, err := expression.Decode(written)
		if err != nil {
			return
		}
		before := identityOf(tree.(map[string]any))
		refused := e.CheckTemplates(tree.(map[string]any))
		p := e.Templates(Space{Name: "s"}, written)
		if p.Text == "" {
			if strings.Contains(a, opened) || refused != nil {
				t.Fatalf("%q and %q have no templates: %v", a, b, refused)
			}
			return
		}
		var made []byte
		if used := cost.Allocated(func() { made, err = e.Apply(written, []Input{p.input(berlin)}) }); used > maxFuzzed+uint64(100*len(written)) {
			t.Fatalf("%q and %q take %d bytes", a, b, used)
		}
		again, err2 := e.Apply(written, []Input{p.input(berlin)})
		if string(made) != string(again) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("once %s %v, then %s %v", made, err, again, err2)
		}
		if refused != nil && err == nil {
			t.Fatalf("%v, and yet it is %s", refused, made)
		}
		if err != nil {
			if _, ok := errors.AsType[*TemplateError](err); !ok {
				t.Fatalf("%v is no failure of a template", err)
			}
			return
		}
		after, err := expression.Decode(made)
		if err != nil || before.check(after.(map[string]any)) != nil || after.(map[string]any)["status"] != tree.(map[string]any)["status"] {
			t.Fatalf("made %s: %v", made, err)
		}
	})
}
