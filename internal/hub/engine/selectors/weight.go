package selectors

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// MaxRequirements bounds the requirements of all label selectors of one object, one for each of
	// matchLabels and of matchExpressions. Each may be evaluated for each object of a space while the
	// table is locked.
	MaxRequirements = 1024
	// MaxValues bounds the values of these requirements.
	MaxValues = 4096
	// MaxSpaceRequirements bounds the requirements of all Placements and Customizers of a space: about 0.15 ms
	// for each object that a revision has evaluated again.
	MaxSpaceRequirements = 4096
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
