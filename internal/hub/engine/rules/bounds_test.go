package rules

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
)

// What an expression makes of little, in memory or time, is bounded before it is made: its
// cost alone is known too late.
func TestCallsAreBounded(t *testing.T) {
	e := newEngine(t)
	x, zeros := strings.Repeat("y", 8_000), make([]any, 9)
	double := strings.Repeat(".map(a, a + a)", 40)
	for _, text := range []string{
		"object.x.replace('', object.x).size()",
		"lists.range(1000).map(a, 'a'.replace('a', object.x)).size()",
		"object.x.split('').join(object.x).size()",
		"lists.range(3000000).size()",
		"lists.range(1000).map(a, object.x.split('')).flatten().size()",
		"object.x.split('').distinct().size()",
		"sets.intersects(object.x.split(''), object.x.split(''))",
		"quantity('1e3000000').compareTo(quantity('1'))",
		"quantity('1e-3000000').add(1)",
		"isQuantity('12345678901234567890e1000000')",
		"object.x.matches(object.x + '(y?){900}z')",
		"matches(object.x, object.x + '(y?){900}z')",
		"object.x.findAll('(y?){900}' + object.x)",
		"object.x.matches('(y?){999}(y?){999}z')",
		"object.y.find('(y?){999}(y?){999}(y?){999}(y?){999}z')",
		"lists.range(20).map(a, object.x.find('((y?){30}){33}z'))",
		"'%.1000000f'.format([1.0])",
		"(object.x.replace('y', '%s')).format(object.x.split('').map(a, object.x))",
		"[object.l]" + double + "[0].reverse()",
		"[object.l]" + double + ".map(a, a == a)",
	} {
		object := expression.Encode(map[string]any{"a": "${" + text + "}", "x": x, "y": strings.Repeat("y", 1_000_000), "l": zeros})
		p := e.Templates(Space{}, object)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := processTime(t)
		made, err := e.Apply(object, []Input{p.input(berlin)})
		took := processTime(t) - start
		runtime.ReadMemStats(&after)
		if err == nil || strings.Contains(err.Error(), "not valid") {
			t.Errorf("%s gives %.100s, and the error %v", text, made, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 || took > 20*time.Second {
			t.Errorf("%s takes %d bytes and %s of the CPU", text, used, took)
		}
	}
}

// processTime returns the CPU time that the process has used. Unlike elapsed time it does not
// grow while other processes run.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// What is of a usual size is made as ever.
func TestBoundedCallsWork(t *testing.T) {
	e := newEngine(t)
	for text, want := range map[string]string{
		"'a-b'.replace('-', '.') + 'a-b-c'.replace('-', '.', 1)":                                                                                                        "a.ba.b-c",
		"['a', 'b'].join() + ['a', 'b'].join('-')":                                                                                                                      "aba-b",
		"'%.2f %s %d'.format([1.0, {'a': [1]}, 3])":                                                                                                                     `1.00 {"a":[1]} 3`,
		"[[1, 2], [3, [4]]].flatten() == [1, 2, 3, [4]] && [[1, 2], [3, [4]]].flatten(2) == [1, 2, 3, 4] ? 'y' : 'n'":                                                   "y",
		"string(lists.range(3).size()) + string([1, 1, 2].distinct().size())":                                                                                           "32",
		"sets.contains([1, 2], [1]) && sets.equivalent([1], [1, 1]) && !sets.intersects([1], [2]) ? 'y' : 'n'":                                                          "y",
		"quantity('1e30').isGreaterThan(quantity('12E')) && isQuantity('1.5Gi') && !isQuantity('1x') ? 'y' : 'n'":                                                       "y",
		"'abc'.matches('^a.c$') && !matches('abc', 'd') && 'abc'.find('b') == 'b' && 'abab'.findAll('a').size() == 2 && 'abab'.findAll('a', 1).size() == 1 ? 'y' : 'n'": "y",
		"([1, 2] + [3]).map(a, string(a)).join('')":                                                                                                                     "123",
	} {
		object := expression.Encode(map[string]any{"a": "${" + text + "}"})
		made, err := e.Apply(object, []Input{e.Templates(Space{}, object).input(berlin)})
		if err != nil || string(made) != string(expression.Encode(map[string]any{"a": want})) {
			t.Errorf("%s gives %s %v, want %s", text, made, err, want)
		}
	}
	if errs := e.Check([]v1alpha1.Rule{{Path: "$.data.x", Expression: "'a'.matches('(') ? 'a' : 'b'"}}, field.NewPath("rules")); len(errs) != 1 {
		t.Errorf("a pattern that is none has the errors %v", errs)
	}
}
