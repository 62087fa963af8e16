package aggregate

import (
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestBombs has the filter, the groups and the values of Summaries compare what is small in
// memory and has a million parts. Each fails before it is walked through.
func TestBombs(t *testing.T) {
	l := newLanguage(t)
	bomb := "[0]" + strings.Repeat(".map(a, [a, a])", 20) + ".map(a, a == a)[0]"
	count := []v1alpha1.SummaryCombine{{Name: "n", Type: v1alpha1.SummaryCount}}
	for name, spec := range map[string]v1alpha1.SummarySpec{
		"filter":  {Filter: bomb, Combine: count},
		"group":   {GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "g", Expression: bomb}}, Combine: count},
		"select":  {Select: []v1alpha1.SummaryColumnExpression{{Name: "s", Expression: bomb}}},
		"combine": {Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: v1alpha1.SummaryCount, Expression: bomb}}},
	} {
		c := compile(t, l, spec).Contribute(Input{})
		if !strings.Contains(c.Failure, "cost limit exceeded") {
			t.Errorf("%s: it gives %+v", name, c)
		}
	}
}
