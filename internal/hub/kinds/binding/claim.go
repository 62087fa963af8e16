package binding

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// Claim is a claim in force in a space. It is immutable.
type Claim struct {
	Resource key.Resource
	// ReferredBy are the fields of exported objects that name claimed objects.
	ReferredBy []v1alpha1.ClaimReference
	verbs      [][]string
	selectors  []labels.Selector
}

// newClaim returns the rights that all versions of a claim have in common.
func newClaim(versions ...v1alpha1.APIClaim) Claim {
	c := Claim{Resource: key.NewResource(versions[0].Group, versions[0].Resource), ReferredBy: versions[0].ReferredBy}
	for _, v := range versions {
		c.verbs = append(c.verbs, v.Verbs)
		c.ReferredBy = intersect(c.ReferredBy, v.ReferredBy)
		selector := labels.Everything()
		if v.Selector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(v.Selector); err != nil {
				selector = labels.Nothing() // does not happen: writes of invalid selectors are refused
			}
		}
		c.selectors = append(c.selectors, selector)
	}
	return c
}

func intersect(a, b []v1alpha1.ClaimReference) (both []v1alpha1.ClaimReference) {
	for _, one := range a {
		if slices.Contains(b, one) {
			both = append(both, one)
		}
	}
	return both
}

// Selects reports whether an object with the labels is claimed.
func (c *Claim) Selects(set labels.Labels) bool {
	return !slices.ContainsFunc(c.selectors, func(s labels.Selector) bool { return !s.Matches(set) })
}

// Allows reports whether the provider may use a verb on claimed objects.
func (c *Claim) Allows(verb string) bool {
	return !slices.ContainsFunc(c.verbs, func(verbs []string) bool {
		return !slices.Contains(verbs, verb) && !slices.Contains(verbs, "*")
	})
}
