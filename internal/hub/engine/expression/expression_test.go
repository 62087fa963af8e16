package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
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

// unreadMap is a map that must not be walked through.
type unreadMap struct {
	traits.Mapper
	t *testing.T
}

func (m unreadMap) Iterator() traits.Iterator {
	m.t.Error("a map that is too large was walked through")
	return m.Mapper.Iterator()
}

// TestLargeValuesAreNotRead: a list or an object that can't be converted to JSON in the given room is given up by its
// size, before its keys are brought in order. The cost of a conversion follows the size of what fits.
func TestLargeValuesAreNotRead(t *testing.T) {
	const room = 800
	fields, small := map[string]any{}, map[string]any{"a": []any{"b", true}}
	for i := range room {
		fields[fmt.Sprint(i)] = true
	}
	native := adapter{types.DefaultTypeAdapter}
	left := room
	if _, err := JSON(unreadMap{native.NativeToValue(fields).(traits.Mapper), t}, &left); !errors.Is(err, ErrTooMuch) {
		t.Errorf("the error is %v", err)
	}
	for _, c := range []struct {
		value any
		want  uint64
	}{{true, 0}, {"text", 0}, {small, 0}, {slices.Repeat([]any{true}, 50), 10}, {slices.Repeat([]any{true}, 50_000), 24}, {fields, 24}} {
		if got := ConversionCost(native.NativeToValue(c.value), room); got != c.want {
			t.Errorf("the cost of a %T is %d, want %d", c.value, got, c.want)
		}
	}
}
