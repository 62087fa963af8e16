package selectors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/test/support/seeds"
)

var operators = []metav1.LabelSelectorOperator{
	metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
}

// randomSelector has up to six requirements of few keys and values, so that they meet labels and each
// other.
func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for range r.IntN(3) {
		metav1.AddLabelToSelector(s, fmt.Sprint("k", r.IntN(4)), fmt.Sprint(r.IntN(3)))
	}
	for range r.IntN(5) {
		e := metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", r.IntN(4)), Operator: operators[r.IntN(len(operators))]}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			for range 1 + r.IntN(3) {
				e.Values = append(e.Values, fmt.Sprint(r.IntN(3)))
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func randomLabels(r *rand.Rand) (l table.Labels) {
	for k := range 4 {
		if r.IntN(2) == 0 {
			l = append(l, table.Label{Key: fmt.Sprint("k", k), Value: fmt.Sprint(r.IntN(3))})
		}
	}
	return l
}

// TestEqualsKubernetes: a compiled selector, with and without a Memo, matches what Kubernetes' own does.
func TestEqualsKubernetes(t *testing.T) {
	for i := range seeds.All(t, 20) {
		r := seeds.Rand(t, uint64(i)) // #nosec G115 -- it is not negative
		var all []*Selector
		for range 20 {
			s, err := Compile(randomSelector(r))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		var m Memo
		for range 50 {
			l := randomLabels(r)
			for _, s := range slices.Concat(all, all) {
				want := s.source.Matches(l)
				if got, remembered := s.Matches(l), m.Matches(s, l); got != want || remembered != want {
					t.Fatalf("%s matches %v: %v, with a Memo %v, want %v", s, l, got, remembered, want)
				}
			}
		}
	}
}

// TestWeight: matchLabels weigh as the requirements that they stand for.
func TestWeight(t *testing.T) {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1", "b": "2"}, MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "c", Operator: metav1.LabelSelectorOpExists}, {Key: "d", Operator: metav1.LabelSelectorOpIn, Values: []string{"1", "2", "3"}},
	}}
	if got, want := WeightOf(s).Plus(WeightOf(nil)), (Weight{Requirements: 4, Values: 5}); got != want {
		t.Errorf("the weight is %+v, want %+v", got, want)
	}
}
