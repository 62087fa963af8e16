package aggregate

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

func newLanguage(t testing.TB) *Language {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func compile(t interface{ Fatal(...any) }, l *Language, spec v1alpha1.SummarySpec) *Definition {
	d, errs := l.Compile(&spec, field.NewPath("spec"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return d
}

// shown is what a status says, as JSON.
func shown(d *Definition, rows []Row) string {
	var st v1alpha1.SummaryStatus
	c := d.Show(rows, &st)
	return asJSON(st) + " " + c.Reason
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// stateText returns the table of a State as text.
func stateText(s *State, stale func(key.Location) bool) string {
	var st v1alpha1.SummaryStatus
	c := s.Status(&st, stale)
	return asJSON(st) + " " + c.Reason
}

// table returns the rows of a State as text.
func table(s *State) string {
	var st v1alpha1.SummaryStatus
	c := s.Status(&st, never)
	st.Counted, st.Stale, st.Failed, st.Errors = 0, 0, 0, nil
	return asJSON(st) + " " + c.Reason
}

// specs are what properties are tested with.
func specs() []v1alpha1.SummarySpec {
	columns := func(all ...string) (c []v1alpha1.SummaryColumnExpression) {
		for i, e := range all {
			c = append(c, v1alpha1.SummaryColumnExpression{Name: fmt.Sprintf("k%d", i), Expression: e})
		}
		return c
	}
	var every []v1alpha1.SummaryCombine
	for i, e := range []string{"object.n", "quantity(object.q)", "duration(object.d)", "object.?m", "object.?n"} {
		for _, as := range []v1alpha1.SummaryCombineType{"SUM", "AVG", "MIN", "MAX", "COUNT"} {
			if i != 3 || as == "COUNT" || as == "MIN" || as == "MAX" {
				every = append(every, v1alpha1.SummaryCombine{Name: fmt.Sprintf("%s%d", as, i), Type: as, Expression: e})
			}
		}
	}
	return []v1alpha1.SummarySpec{
		{Combine: every},
		{Combine: every, GroupBy: columns("location.name", "object.?g"), Limit: 3},
		{Combine: []v1alpha1.SummaryCombine{{Name: "all", Type: "COUNT"}}, GroupBy: columns("object.n"), Filter: "object.f"},
		{Combine: []v1alpha1.SummaryCombine{{Name: "last", Type: "MAX", Expression: "timestamp(object.t)"}}, Filter: "sync.applied"},
		{Select: columns("object.?g", "location.name", "object.n", "object.?m"), Filter: "object.?f.orValue(true)", Limit: 4},
		{
			ForEach: "object.?l", Filter: "item.?f.orValue(sync.applied)", GroupBy: columns("item.p", "location.name"),
			Combine: []v1alpha1.SummaryCombine{
				{Name: "all", Type: "COUNT"}, {Name: "sum", Type: "SUM", Expression: "item.?n"}, {Name: "most", Type: "MAX", Expression: "item.?n"}, {Name: "g", Type: "COUNT", Expression: "object.?g"},
			},
		},
		{ForEach: "object.l", Combine: []v1alpha1.SummaryCombine{{Name: "all", Type: "COUNT"}}},
		{ForEach: "object.?l", Select: columns("item.?n", "object.?g", "location.name"), Limit: 4},
	}
}

func drawInput(t *rapid.T, l key.Location) Input {
	choose := func(name string, values ...string) string {
		return fmt.Sprintf("%q:%s,", name, rapid.SampledFrom(values).Draw(t, name))
	}
	object := "{"
	if rapid.IntRange(0, 9).Draw(t, "whole") > 0 {
		object += choose("n", "0", "1", "-7", "0.1", "0.2", "0.30000000000000004", "1e300", "-1e300", "1e-300", "9007199254740993", "9223372036854775807")
		object += choose("q", `"1"`, `"100m"`, `"1Gi"`, `"1.5Gi"`, `"-3"`, `"1e3"`, `"1n"`, `"0"`)
		object += choose("d", `"1h"`, `"3ns"`, `"-1m"`, `"2562047h"`)
		object += choose("t", `"2026-01-01T00:00:00Z"`, `"2026-01-01T00:00:00.5Z"`, `"0001-01-01T00:00:00Z"`)
		object += choose("f", "true", "true", "false")
	}
	if rapid.IntRange(0, 4).Draw(t, "has a list") > 0 {
		object += choose("l", `[]`, `[{"p":"a","n":1},{"p":"a","n":2}]`, `[{"p":"b"},{"p":"a","n":0.5,"f":true}]`, `[{"p":"b","n":3,"f":false},{"p":"b","n":3}]`,
			`[{"p":"a"},{"n":1}]`, `null`, `"text"`, `[1,2]`)
	}
	object += choose("g", `"a"`, `"b"`, "null", "1", "1.0", "true", `["x"]`) + choose("m", "1", `"text"`, "null")
	object = strings.TrimSuffix(object, ",") + "}"
	return Input{Object: NewTree([]byte(object)), Place: Location(l, nil, nil), Sync: Sync{Applied: rapid.Bool().Draw(t, "applied")}.Values()}
}

// TestStateEqualsRecomputation: the table of a State after any sequence of changes equals that of a
// new State with the same content, added in any order.
func TestStateEqualsRecomputation(t *testing.T) {
	l := newLanguage(t)
	seeds.Check(t, func(t *rapid.T) {
		d := compile(t, l, rapid.SampledFrom(specs()).Draw(t, "spec"))
		s, there := NewState(d), map[Pair]Contribution{}
		locations := []key.Location{"a", "b", "c"}
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			p := Pair{fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "object")), rapid.SampledFrom(locations).Draw(t, "location")}
			before, isShown := "", rapid.Bool().Draw(t, "looks") // or else changes come together
			if isShown {
				before = stateText(s, never)
			}
			var changed bool
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				changed = s.Remove(p)
				delete(there, p)
			} else {
				there[p] = d.Contribute(drawInput(t, p.Location))
				changed = s.Set(p, there[p])
			}
			if isShown && !changed && stateText(s, never) != before {
				t.Fatalf("no change was reported, but the state has changed:\n%s\n%s", before, stateText(s, never))
			}
		}
		anew, order := NewState(d), rapid.Permutation(pairsOf(there)).Draw(t, "order")
		for _, p := range order {
			anew.Set(p, there[p])
		}
		stale := func(l key.Location) bool { return l == "b" }
		if got, want := stateText(s, stale), stateText(anew, stale); got != want {
			t.Fatalf("incrementally\n%s\nanew\n%s", got, want)
		}
		if got, want := table(s), shown(d, s.Rows()); got != want {
			t.Fatalf("by what has changed\n%s\nof all rows\n%s", got, want)
		}
		if s.size != anew.size || len(s.pairs) != len(anew.pairs) {
			t.Fatalf("it holds %d bytes, anew %d", s.size, anew.size)
		}
	})
}

func never(key.Location) bool { return false }

func pairsOf(all map[Pair]Contribution) (pairs []Pair) {
	for p := range all {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, Pair.compare)
	return pairs
}

// TestMerge: what is summed up by several States and merged, in any order and however it is
// bracketed, is what one State sums up.
func TestMerge(t *testing.T) {
	l := newLanguage(t)
	seeds.Check(t, func(t *rapid.T) {
		d := compile(t, l, rapid.SampledFrom(specs()).Draw(t, "spec"))
		const hubs = 4
		all, perHub := NewState(d), [hubs]*State{}
		for i := range perHub {
			perHub[i] = NewState(d)
		}
		for i := range rapid.IntRange(0, 20).Draw(t, "pairs") {
			p := Pair{fmt.Sprint(i), "a"}
			c := d.Contribute(drawInput(t, p.Location))
			all.Set(p, c)
			perHub[rapid.IntRange(0, hubs-1).Draw(t, "hub")].Set(p, c)
		}
		var rows [][]Row
		for _, i := range rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "order") {
			rows = append(rows, perHub[i].Rows())
		}
		for len(rows) > 1 {
			i := rapid.IntRange(0, len(rows)-2).Draw(t, "bracket")
			rows[i] = Merge(rows[i], rows[i+1])
			rows = slices.Delete(rows, i+1, i+2)
		}
		if got, want := shown(d, rows[0]), shown(d, all.Rows()); got != want {
			t.Fatalf("merged\n%s\nat once\n%s", got, want)
		}
	})
}

// TestSumsAreExact compares with fractions, which are exact.
func TestSumsAreExact(t *testing.T) {
	l := newLanguage(t)
	d := compile(t, l, v1alpha1.SummarySpec{Combine: []v1alpha1.SummaryCombine{
		{Name: "sum", Type: "SUM", Expression: "object.n"}, {Name: "avg", Type: "AVG", Expression: "object.n"},
		{Name: "min", Type: "MIN", Expression: "object.n"}, {Name: "max", Type: "MAX", Expression: "object.n"},
	}})
	seeds.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{"0", "1", "-7", "0.1", "0.2", "123456789.125", "1e22", "-1e22", "1e-20", "9223372036854775807"}), 1, 12).Draw(t, "numbers")
		s, sum := NewState(d), new(big.Rat)
		var least, most *big.Rat
		for i, n := range texts {
			s.Set(Pair{fmt.Sprint(i), "a"}, d.Contribute(Input{Object: NewTree([]byte(`{"n":` + n + `}`))}))
			r, _ := new(big.Rat).SetString(n)
			sum.Add(sum, r)
			if least == nil || r.Cmp(least) < 0 {
				least = r
			}
			if most == nil || r.Cmp(most) > 0 {
				most = r
			}
		}
		row := s.Rows()[0]
		for i, want := range []*big.Rat{sum, nil, least, most} {
			if want == nil {
				continue
			}
			if got, _ := row.partials[i].result(d.combined[i].as); got.amount.rat().Cmp(want) != 0 {
				t.Fatalf("%v: %s is %s, want %s", texts, d.combined[i].as, got.amount.text(), want)
			}
		}
		average, _ := row.partials[1].result("AVG")
		want, _ := new(big.Rat).Quo(sum, big.NewRat(int64(len(texts)), 1)).Float64()
		got, _ := average.amount.rat().Float64()
		if d := got - want; d > 1e-9*max(1, want, -want) || -d > 1e-9*max(1, want, -want) {
			t.Fatalf("%v: the average is %v, want %v", texts, got, want)
		}
	})
}

// TestHostileExpressions: what would cost much fails for the object, and costs a bounded time.
func TestHostileExpressions(t *testing.T) {
	l := newLanguage(t)
	list := "[" + strings.Repeat("1,", 999) + "1]"
	for _, e := range []string{
		"object.l.all(a, object.l.all(b, object.l.all(c, true)))",
		"object.l.map(a, object.s).join(object.s) != ''",
		"object.s.matches('(x+x+)+y')",
		"string(object.l.map(a, object.l)).size() > 0",
	} {
		d, errs := l.Compile(&v1alpha1.SummarySpec{Filter: e, Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}}, nil)
		if len(errs) > 0 {
			continue
		}
		c := d.Contribute(Input{Object: NewTree([]byte(`{"l":` + list + `,"s":"` + strings.Repeat("x", 100_000) + `"}`))})
		if c.Failure == "" || len(c.Failure) > 1024 {
			t.Errorf("%s: %+v", e, c)
		}
	}
	// Many that are cheap alone are too dear together, and long values no rows.
	cheap := "object.l.all(a, a == 1)"
	var all []v1alpha1.SummaryColumnExpression
	for i := range 16 {
		all = append(all, v1alpha1.SummaryColumnExpression{Name: fmt.Sprint("c", i), Expression: cheap + " || " + fmt.Sprint(i) + " == 0"})
	}
	d := compile(t, l, v1alpha1.SummarySpec{Select: all})
	if c := d.Contribute(Input{Object: NewTree([]byte(`{"l":` + list + `}`))}); !strings.Contains(c.Failure, "cost too much together") {
		t.Errorf("got %+v", c)
	}
	d = compile(t, l, v1alpha1.SummarySpec{Select: []v1alpha1.SummaryColumnExpression{{Name: "s", Expression: "object.s"}}})
	if c := d.Contribute(Input{Object: NewTree([]byte(`{"s":"` + strings.Repeat("x", 2000) + `"}`))}); !strings.Contains(c.Failure, "more than 1024 bytes") {
		t.Errorf("got %+v", c)
	}
}

// TestKnown: a cached result equals a computed one, has no cost, and counts towards the limit of a
// Summary like a computed one.
func TestKnown(t *testing.T) {
	l := newLanguage(t)
	seeds.Check(t, func(t *rapid.T) {
		input := drawInput(t, "a")
		known := input
		known.Known = Known{}
		for range 2 {
			for _, spec := range specs() {
				d := compile(t, l, spec)
				want, got := d.Contribute(input), d.Contribute(known)
				if got.Failure != want.Failure || !slices.EqualFunc(got.elements, want.elements, element.equal) || got.Cost > want.Cost {
					t.Fatalf("%+v\ninstead of\n%+v", got, want)
				}
			}
		}
		for _, spec := range specs() {
			if c := compile(t, l, spec).Contribute(known); c.Cost != 0 && spec.ForEach == "" {
				t.Fatalf("what is known costs %d", c.Cost)
			}
		}
	})
	var all []v1alpha1.SummaryColumnExpression
	for i := range 16 {
		all = append(all, v1alpha1.SummaryColumnExpression{Name: fmt.Sprint("c", i), Expression: fmt.Sprintf("object.l.all(a, a == 1) || %d == 0", i)})
	}
	known := Input{Object: NewTree([]byte(`{"l":[` + strings.Repeat("1,", 999) + `1]}`)), Known: Known{}}
	for _, one := range all {
		if c := compile(t, l, v1alpha1.SummarySpec{Select: []v1alpha1.SummaryColumnExpression{one}}).Contribute(known); c.Failure != "" {
			t.Fatal(c.Failure)
		}
	}
	if c := compile(t, l, v1alpha1.SummarySpec{Select: all}).Contribute(known); !strings.Contains(c.Failure, "cost too much together") || c.Cost != 0 {
		t.Errorf("got %+v", c)
	}
}

func (e element) equal(o element) bool {
	return e.index == o.index && compareAll(e.keys, o.keys) == 0 && compareAll(e.values, o.values) == 0
}

// TestStatusIsBounded: however many rows there are, a status has a bounded size, and says so.
func TestStatusIsBounded(t *testing.T) {
	d := compile(t, newLanguage(t), v1alpha1.SummarySpec{Limit: 1000, Select: []v1alpha1.SummaryColumnExpression{{Name: "s", Expression: "object.s"}}})
	s := NewState(d)
	for i := range 1000 {
		s.Set(Pair{fmt.Sprintf("%04d", i), "a"}, d.Contribute(Input{Object: NewTree([]byte(`{"s":"` + strings.Repeat("x", 1000) + `"}`))}))
	}
	var st v1alpha1.SummaryStatus
	c := s.Status(&st, never)
	if n := len(asJSON(st)); n > maxStatus+4096 || !st.Truncated || st.Total != 1000 || len(st.Rows) < 100 || c.Status != metav1.ConditionFalse || c.Reason != "TooLarge" {
		t.Errorf("%d bytes, %d rows, truncated %v, %+v", n, len(st.Rows), st.Truncated, c)
	}
	if s.Full() || s.Bytes() < 1000*1000 {
		t.Errorf("it holds %d bytes", s.Bytes())
	}
}

// TestErrorsAreCapped: the first error of each location, of a few.
func TestErrorsAreCapped(t *testing.T) {
	d := compile(t, newLanguage(t), v1alpha1.SummarySpec{Combine: []v1alpha1.SummaryCombine{{Name: "s", Type: "SUM", Expression: "object.n"}}})
	s := NewState(d)
	for i := range 30 {
		for _, path := range []string{"x", "y"} {
			s.Set(Pair{path, key.Location(fmt.Sprintf("l%02d", i))}, d.Contribute(Input{Object: NewTree([]byte(`{"n":"` + path + `"}`))}))
		}
	}
	var st v1alpha1.SummaryStatus
	s.Status(&st, never)
	if len(st.Errors) != maxErrors || st.Failed != 60 || st.Counted != 0 || asJSON(st.Rows) != "[[0]]" ||
		st.Errors[9] != (v1alpha1.SummaryError{Location: "l09", Message: "s: gives a text; SUM is of numbers, quantities or durations: quantity() and duration() make one of a text"}) {
		t.Errorf("%s", asJSON(st))
	}
}

// TestRefused: what can't be right is refused at its field.
func TestRefused(t *testing.T) {
	l := newLanguage(t)
	for want, spec := range map[string]v1alpha1.SummarySpec{
		"spec.filter: Invalid value: \"1\": gives a number":                       {Filter: "1"},
		"spec.filter: Invalid value: \"self\": not valid: 1:1: undeclared":        {Filter: "self"},
		"spec.groupBy[1].expression: Invalid value: \"sync.x\"":                   {GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "a", Expression: "1"}, {Name: "b", Expression: "sync.x"}}},
		"spec.select[0].expression: Invalid value: \"1 +\"":                       {Select: []v1alpha1.SummaryColumnExpression{{Name: "a", Expression: "1 +"}}},
		"spec.combine[0].expression: Invalid value: \"location.name\": gives a t": {Combine: []v1alpha1.SummaryCombine{{Name: "a", Type: "AVG", Expression: "location.name"}}},
		"spec.combine[0].expression: Invalid value: \"true\": gives a boolean":    {Combine: []v1alpha1.SummaryCombine{{Name: "a", Type: "MAX", Expression: "true"}}},
		"spec.combine[0].expression: Required value":                              {Combine: []v1alpha1.SummaryCombine{{Name: "a", Type: "MAX"}}},
		"spec.forEach: Invalid value: \"1\": gives a number, where a list":        {ForEach: "1"},
		"spec.forEach: Invalid value: \"item.x\": not valid: 1:1: undeclared":     {ForEach: "item.x"},
		"spec.filter: Invalid value: \"item.x\": not valid: 1:1: undeclared refe": {Filter: "item.x"},
		"spec.filter: Invalid value: \"size(item)\": gives a number":              {ForEach: "object.l", Filter: "size(item)"},
		"may not be longer than 4096 bytes":                                       {Filter: strings.Repeat(" ", 5000) + "true"},
	} {
		_, errs := l.Compile(&spec, field.NewPath("spec"))
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("want %s, got %v", want, errs)
		}
	}
}

// BenchmarkStatus is what it takes to show many groups of which one has changed.
func BenchmarkStatus(b *testing.B) {
	d := compile(b, newLanguage(b), v1alpha1.SummarySpec{
		GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "g", Expression: "object.g"}},
		Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}, {Name: "x", Type: "SUM", Expression: "object.n"}, {Name: "most", Type: "MAX", Expression: "object.n"}},
	})
	s := NewState(d)
	set := func(i, n int) {
		s.Set(Pair{fmt.Sprint(i), "a"}, d.Contribute(Input{Object: NewTree(fmt.Appendf(nil, `{"g":"group-%d","n":%d}`, i, n))}))
	}
	const groups = 24_000
	for i := range groups {
		set(i, i)
	}
	n := 0
	for b.Loop() {
		n++
		set(n%groups, n)
		var st v1alpha1.SummaryStatus
		s.Status(&st, never)
	}
}
