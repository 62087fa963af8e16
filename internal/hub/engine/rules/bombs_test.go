package rules

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/expression"
)

// TestTemplateBombs evaluates expressions that make a value which is small in memory and has
// millions of parts when it is walked through. Each is refused before it is walked through.
func TestTemplateBombs(t *testing.T) {
	const levels = 20 // 2^20 parts: a version that walks through them still ends
	e := newEngine(t)
	doubled := func(value, pair string) string {
		return "[" + value + "]" + strings.Repeat(".map(a, "+pair+")", levels)
	}
	lists, maps := doubled("0", "[a, a]"), doubled("0", "{'x': a, 'y': a}")
	for name, text := range map[string]string{
		"equal":           lists + ".map(a, string(a == a))[0]",
		"equal maps":      maps + ".map(a, string(a == a))[0]",
		"unequal":         lists + ".map(a, string(a != a))[0]",
		"in":              lists + ".map(a, string(a in [a]))[0]",
		"distinct":        lists + ".map(a, string([a, a].distinct().size()))[0]",
		"sets.contains":   lists + ".map(a, string(sets.contains([a], [a])))[0]",
		"sets.equivalent": lists + ".map(a, string(sets.equivalent([a], [a])))[0]",
		"sets.intersects": lists + ".map(a, string(sets.intersects([a], [a])))[0]",
		"indexOf":         lists + ".map(a, string([a].indexOf(a)))[0]",
		"lastIndexOf":     lists + ".map(a, string([a].lastIndexOf(a)))[0]",
		"optional values": doubled("optional.of(0)", "optional.of([a, a])") + ".map(a, string(a == a))[0]",
		"concatenation":   doubled("[0]", "a + a") + ".map(a, string(a == a))[0]",
		"of a whole object": "object.l.map(a, object).map(a, string(a == object)).size() > 0 && " +
			"object.l.map(a, object) == object.l.map(a, object) ? 'a' : 'b'",
		"not looked at": lists + ".size() == 1 ? 'a' : 'b'",
	} {
		object := expression.Encode(map[string]any{"a": "${" + text + "}", "l": make([]any, 400), "x": make([]any, 20_000)})
		made, err := e.Apply(object, []Input{e.Templates(Space{}, object).input(berlin)})
		if err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
			t.Errorf("%s: %s gives %.100s and the error %v", name, text, made, err)
		}
	}
}

// TestSearchBombs searches texts and maps of some size often. The search is charged by what it
// looks at.
func TestSearchBombs(t *testing.T) {
	e := newEngine(t)
	long := strings.Repeat("y", 100_000)
	fields := map[string]any{}
	for i := range 20_000 {
		fields[fmt.Sprintf("k%d", i)] = "v"
	}
	for _, text := range []string{
		"string(object.long.indexOf(object.pattern))",
		"string(object.long.lastIndexOf(object.pattern))",
		"string(lists.range(200).map(i, object.long.charAt(i)).size())",
		"string(lists.range(200).map(i, object.long.substring(i, i + 1)).size())",
		"string(lists.range(200).map(i, size(object.long)).size())",
		"string(lists.range(100).filter(i, object.fields.exists(k, true)).size())",
		"string(lists.range(100).filter(i, dyn(object.fields).exists(k, true)).size())",
		"string(lists.range(100).filter(i, object.?fields.orValue({}).exists(k, true)).size())",
	} {
		object := expression.Encode(map[string]any{"a": "${" + text + "}", "long": long, "pattern": strings.Repeat("y", 20_000) + "z", "fields": fields})
		made, err := e.Apply(object, []Input{e.Templates(Space{}, object).input(berlin)})
		if err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
			t.Errorf("%s gives %.20s and the error %v", text, made, err)
		}
	}
}
