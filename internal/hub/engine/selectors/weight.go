package selectors

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// MaxRequirements bounds the requirements of all label selectors of one object, one for each of
	// matchLabels and of matchExpressions. Each may be evaluated for each object of a space while the
	// table is locked.
	MaxRequirements = 1024
	// MaxValues bounds the values of these requirements.
	MaxValues = 4096
	// MaxSpaceTests bounds the tests of all Placements, Customizers and KindRules of a space whose Space sets no other
	// limit; see TestsIn. Each may be evaluated for each object that a revision concerns. It leaves room for
	// 5,000 Placements of one test.
	MaxSpaceTests = 8192
)

// Weight is how many requirements label selectors have, and how many values these.
type Weight struct{ Requirements, Values int }

// WeightOf is the weight of one selector. Nil weighs nothing.
func WeightOf(selector *metav1.LabelSelector) (w Weight) {
	if selector == nil {
		return w
	}
	w.Requirements = len(selector.MatchLabels) + len(selector.MatchExpressions)
	w.Values = len(selector.MatchLabels)
	for _, e := range selector.MatchExpressions {
		w.Values += len(e.Values)
	}
	return w
}

// Plus is the weight of both together.
func (w Weight) Plus(o Weight) Weight {
	return Weight{w.Requirements + o.Requirements, w.Values + o.Values}
}
