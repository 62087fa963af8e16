package expression

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
)

// TestOptionalValues: what the library takes out of an optional value, it gives back as it was,
// of whatever type.
func TestOptionalValues(t *testing.T) {
	env, err := New(nil, cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		"object.?q.optMap(q, quantity(q)).value().isGreaterThan(quantity('1'))": "true",
		"object.?q.optMap(q, quantity(q))":                                      `"1Gi"`,
		"object.?u.optMap(u, url(u)).value().getHost()":                         `"x.example"`,
		"object.?i.optMap(i, ip(i)).value().family()":                           "4",
		"object.?c.optMap(c, cidr(c)).value().prefixLength()":                   "8",
		"object.?v.optMap(v, semver(v)).value().major()":                        "1",
		"object.?none.optMap(q, quantity(q)).hasValue()":                        "false",
	} {
		program, err := Compile(env, source)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := program.Eval(t.Context(), Variables{"object": map[string]any{"q": "1Gi", "u": "https://x.example/", "i": "10.0.0.1", "c": "10.0.0.0/8", "v": "1.2.3"}})
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		room := 100
		if got, err := JSON(out, &room); err != nil || string(Encode(got)) != want {
			t.Errorf("%s gives %s %v, want %s", source, Encode(got), err, want)
		}
	}
}

// TestLight: only what takes next to no time is not counted; all that can be long is.
func TestLight(t *testing.T) {
	env, err := New(nil, cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]bool{
		"object.a.b": true, "object.?a[?'b'].orValue(1)": true, "has(object.a) && object.a == 'x' ? object.b : null": true, "object.n > 3 || !object.f": true,
		"object.a == object.b": false, "object.a + object.b": false, "object.a.contains('x')": false, "object.l.all(x, x == 1)": false,
		"'x' in object.a": false, "object.a.matches('x')": false, "[object, object]": false, "quantity(object.q)": false, "object == {'a': 1}": false,
		"object.a" + strings.Repeat(" || object.a", 100): false,
	} {
		program, err := CompileLight(env, source)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := light(program.Expr()); got != want || program.isLight != want {
			t.Errorf("%s: light is %v, want %v", source, got, want)
		}
	}
}
