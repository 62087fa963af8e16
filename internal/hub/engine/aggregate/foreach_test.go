package aggregate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// result is an entry of a policy report.
type result struct {
	Policy string `json:"policy"`
	Result string `json:"result"`
	Score  int    `json:"score"`
}

// TestForEachEqualsNaive: groups of elements that come and go with their objects equal those that a
// loop over all elements counts.
func TestForEachEqualsNaive(t *testing.T) {
	d := compile(t, newLanguage(t), v1alpha1.SummarySpec{
		ForEach: "object.?results", Filter: "item.result != 'skip'",
		GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "policy", Expression: "item.policy"}, {Name: "result", Expression: "item.result"}},
		Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}, {Name: "sum", Type: "SUM", Expression: "item.score"}, {Name: "most", Type: "MAX", Expression: "item.score"}},
	})
	seeds.Check(t, func(t *rapid.T) {
		s, there := NewState(d), map[Pair][]result{}
		draw := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) result {
			return result{rapid.SampledFrom([]string{"p", "q"}).Draw(t, "policy"), rapid.SampledFrom([]string{"pass", "fail", "skip"}).Draw(t, "result"), rapid.IntRange(0, 3).Draw(t, "score")}
		}), 0, 5)
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			p := Pair{fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "object")), rapid.SampledFrom([]key.Location{"a", "b"}).Draw(t, "location")}
			there[p] = draw.Draw(t, "results")
			s.Set(p, d.Contribute(Input{Object: NewTree([]byte(`{"results":` + asJSON(there[p]) + `}`))}))
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				s.Remove(p)
				delete(there, p)
			}
		}
		got := v1alpha1.SummaryStatus{}
		s.Status(&got, never)
		rows, counted := naive(there)
		if asJSON(got.Rows) != rows || got.Counted != counted || got.Failed != 0 {
			t.Fatalf("%v\ncounts %d in %s\ninstead of %d in %s", there, got.Counted, asJSON(got.Rows), counted, rows)
		}
	})
}

// naive returns the rows of the results at all pairs, and the number of pairs that are counted.
func naive(all map[Pair][]result) (rows string, counted int64) {
	type group struct{ policy, result string }
	groups := map[group][3]int{} // number, sum and maximum
	for _, results := range all {
		isCounted := false
		for _, r := range results {
			if r.Result == "skip" {
				continue
			}
			isCounted = true
			g := groups[group{r.Policy, r.Result}]
			groups[group{r.Policy, r.Result}] = [3]int{g[0] + 1, g[1] + r.Score, max(g[2], r.Score)}
		}
		if isCounted {
			counted++
		}
	}
	var shown []string
	for g, n := range groups {
		shown = append(shown, fmt.Sprintf("[%q,%q,%d,%d,%d]", g.policy, g.result, n[0], n[1], n[2]))
	}
	if len(shown) == 0 {
		return "null", counted
	}
	slices.Sort(shown)
	return "[" + strings.Join(shown, ",") + "]", counted
}

// TestForEachIsBounded: an object with too many elements, or whose elements cost too much together,
// fails as a whole. The message names the limit.
func TestForEachIsBounded(t *testing.T) {
	l := newLanguage(t)
	count := []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}
	elements := func(n int) Input {
		return Input{Object: NewTree([]byte(`{"l":[` + strings.TrimSuffix(strings.Repeat(`{"p":"a"},`, n), ",") + `]}`))}
	}
	simple := v1alpha1.SummarySpec{ForEach: "object.l", Combine: count, GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "p", Expression: "item.p"}}}
	dear := v1alpha1.SummarySpec{ForEach: "object.l", Combine: count, Filter: "object.l.all(x, x.p == item.p)"}
	large := func(n int) Input { // elements whose JSON is almost as long as may be
		element := "[" + strings.TrimSuffix(strings.Repeat("1,", maxCell/2-2), ",") + "]"
		return Input{Object: NewTree([]byte(`{"l":[` + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + `]}`))}
	}
	whole := v1alpha1.SummarySpec{ForEach: "object.l", Combine: count}
	for i := range 8 {
		whole.GroupBy = append(whole.GroupBy, v1alpha1.SummaryColumnExpression{Name: fmt.Sprint("c", i), Expression: "item"})
	}
	for _, c := range []struct {
		name  string
		spec  v1alpha1.SummarySpec
		input Input
		want  string
	}{
		{"large elements", whole, large(maxElements), "cost too much together"},
		{"large elements, but few", whole, large(5), ""},
		{"too large elements", whole, Input{Object: NewTree([]byte(`{"l":[[` + strings.TrimSuffix(strings.Repeat("1,", maxCell), ",") + `]]}`))}, "too large"},
		{"as many as may be", simple, elements(maxElements), ""},
		{"too many", simple, elements(maxElements + 1), "forEach: gives 257 elements, more than 256: leave some out"},
		{"too dear together", dear, elements(maxElements), "cost too much together"},
		{"dear, but few", dear, elements(10), ""},
		{"a text", simple, Input{Object: NewTree([]byte(`{"l":"x"}`))}, "forEach: gives a string, where a list belongs"},
		{"no list", simple, Input{Object: NewTree([]byte(`{}`))}, "forEach: no such key: l"},
		{"an element without a field", simple, Input{Object: NewTree([]byte(`{"l":[{"p":"a"},{}]}`))}, "element 1 of forEach: p: no such key: p"},
	} {
		got := compile(t, l, c.spec).Contribute(c.input)
		if c.want == "" && got.Failure != "" || !strings.Contains(got.Failure, c.want) || got.Failure != "" && len(got.elements) > 0 {
			t.Errorf("%s: %q, %d elements", c.name, got.Failure, len(got.elements))
		}
		if got.Cost > maxCost+maxCost {
			t.Errorf("%s: it cost %d", c.name, got.Cost)
		}
	}
}

// TestItemIsNoNewName: expressions of Summaries without forEach may use the name item for their own
// variables, also in a Summary with forEach.
func TestItemIsNoNewName(t *testing.T) {
	l := newLanguage(t)
	for _, forEach := range []string{"", "object.l"} {
		s := v1alpha1.SummarySpec{ForEach: forEach, Filter: "object.l.exists(item, item == 2)", Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}}
		c := compile(t, l, s).Contribute(Input{Object: NewTree([]byte(`{"l":[1,2]}`))})
		if want := map[string]int{"": 1, "object.l": 2}[forEach]; c.Failure != "" || len(c.elements) != want {
			t.Errorf("forEach %q: %+v", forEach, c)
		}
	}
}
