package expression

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/library"
)

// seeds are expressions that everybody writes, and such that make much of little.
var seeds = []string{
	"object.metadata.name + '-' + object.kind", "object.l.map(x, x + 1).filter(x, x > 2)", "'a' in object.m && object.m.a == 'b'",
	"object.l.exists(x, x == object.n)", "object.m.map(k, k + object.m[k]).join(',')", "object.?none.orValue('x')",
	"quantity(object.q).add(quantity('1Gi'))", "object.s.split('-')[0].replace('a', 'b')", "object == object ? 1 : 2",
	"[0].map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, a == a)",
	"[0]" + strings.Repeat(".map(a, [a, a])", 40) + ".map(a, string(a == a))[0]",
	"[0]" + strings.Repeat(".map(a, {'x': a, 'y': a})", 40) + "[0]",
	"[[0]]" + strings.Repeat(".map(a, a + a)", 40) + ".map(a, a.distinct())",
	"[optional.of(0)]" + strings.Repeat(".map(a, optional.of([a, a]))", 40) + ".map(a, a in [a])",
	"object.l.map(a, object.l.map(b, object.l.map(c, object)))", "lists.range(20000).map(a, object)", "sets.contains(object.l, object.l + object.l)",
	"object.s" + strings.Repeat(" + object.s", 200), "(object.s + object.s).indexOf(object.s + 'z')", "'%s'.format([object, object])",
	"lists.range(100).map(i, object.m.exists(k, true))", "[object.l, object.l].flatten().sort()", "parseJSON('[[[1]]]') == [[[1]]]",
	"timestamp('2020-01-01T00:00:00Z').getHours('Europe/Paris')", "object.s.matches('(y?){99}z')", "[1, 2].sortBy(x, -x)",
}

const fuzzed = `{"kind":"ConfigMap","metadata":{"name":"x"},"l":[1,2,3,[4,{"a":5}]],"m":{"a":"b","c":"d"},"n":3,"q":"1Gi","s":"a-b-cäöü"}`

// FuzzExpressions evaluates expressions: none takes more steps or memory than it may, and each
// gives the same, at the same cost, each time.
func FuzzExpressions(f *testing.F) {
	env, err := New(nil, cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range seeds {
		f.Add(s, fuzzed)
	}
	f.Fuzz(func(t *testing.T, source, object string) {
		decoded, err := Decode([]byte(object))
		if err != nil || DepthOf(decoded) > 100 {
			return
		}
		program, err := Compile(env, source)
		if err != nil {
			return
		}
		variables := Variables{"object": decoded}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, cost, err := program.Eval(t.Context(), variables)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20+uint64(10*len(object)) {
			t.Errorf("%d bytes are allocated for %s", used, source)
		}
		if err == nil && cost > MaxCost {
			t.Errorf("%s costs %d", source, cost)
		}
		left := maxSteps + len(object)
		if err == nil && !isWalked(out, &left) {
			t.Errorf("%s gives a value of too many parts", source)
		}
		again, costAgain, errAgain := program.Eval(t.Context(), variables)
		if cost != costAgain || (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Errorf("%s costs %d (%v), then %d (%v)", source, cost, err, costAgain, errAgain)
		}
		room, roomAgain := maxSteps, maxSteps
		if err == nil {
			made, err := JSON(out, &room)
			madeAgain, errAgain := JSON(again, &roomAgain)
			if (err == nil) != (errAgain == nil) || err == nil && string(Encode(made)) != string(Encode(madeAgain)) {
				t.Errorf("%s gives %v (%v), then %v (%v)", source, made, err, madeAgain, errAgain)
			}
		}
	})
}

// isWalked walks through a value with a number of parts left. It is written without the counting
// that it checks.
func isWalked(v ref.Val, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	switch v := v.(type) {
	case *types.Optional:
		return !v.HasValue() || isWalked(v.GetValue(), left)
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if !isWalked(it.Next(), left) {
				return false
			}
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if k := it.Next(); !isWalked(v.Get(k), left) {
				return false
			}
		}
	}
	return true
}

// TestChargesAreComplete makes an environment with a function that has no charge. It is refused.
func TestChargesAreComplete(t *testing.T) {
	_, err := New(nil, cel.Function("free", cel.Overload("free", nil, cel.IntType, cel.FunctionBinding(func(...ref.Val) ref.Val { return types.Int(1) }))))
	if err == nil || !strings.Contains(err.Error(), "function free has no charge") {
		t.Errorf("the error is %v", err)
	}
}

// TestUsualCosts compares what usual expressions cost with what CEL counts for them: charges add
// nothing.
func TestUsualCosts(t *testing.T) {
	env, err := New(nil, cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		t.Fatal(err)
	}
	object := Variables{"object": map[string]any{"name": "a", "l": []any{"a", "b"}, "m": map[string]any{"a": "b", "c": "d"}}}
	for _, source := range []string{
		"object.name + '-x'", "object.l.exists(x, x == 'b')", "object.l.map(x, x + '!').join(',')", "object.m.map(k, k + '=' + object.m[k])",
		"'a' in object.m && object.l == ['a', 'b']", "object.l.map(x, {'name': x, 'value': object.m})", "object.name.substring(object.name.indexOf('a'))",
	} {
		program, err := Compile(env, source)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := env.Program(program.checked, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(costs{&library.CostEstimator{}}), cel.InterruptCheckFrequency(1))
		if err != nil {
			t.Fatal(err)
		}
		_, details, _ := counted.Eval(object)
		if _, cost, err := program.Eval(t.Context(), object); err != nil || cost != *details.ActualCost() {
			t.Errorf("%s costs %d (%v), want %d", source, cost, err, *details.ActualCost())
		}
	}
}

// TestInterrupted ends an evaluation with its context. The error is no result.
func TestInterrupted(t *testing.T) {
	env, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	program, err := Compile(env, "lists.range(1000).all(x, x >= 0)")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if out, _, err := program.Eval(ctx, Variables{}); err != nil || out != types.True {
		t.Fatalf("it gives %v and the error %v", out, err)
	}
	cancel()
	if _, _, err := program.Eval(ctx, Variables{}); !errors.Is(err, ErrInterrupted) || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
