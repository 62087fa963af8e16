package write

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
)

// claims recomputes the accepted claims and the condition about undecided ones. An accepted claim
// stays as it was when it was accepted.
func (u *bindingUpdate) claims(export *v1alpha1.APIExport, reason string, decided []v1alpha1.ClaimDecision) {
	var offered []v1alpha1.APIClaim
	if export != nil {
		offered = export.Spec.Claims
	}
	previous := u.Status.Claims
	u.Status.Claims = nil
	for _, d := range u.Spec.Claims {
		if d.State != v1alpha1.ClaimAccepted {
			continue
		}
		from := offered
		if slices.Contains(decided, d) {
			from = previous
		}
		if c := binding.ClaimOf(from, d.Group, d.Resource); c != nil {
			u.Status.Claims = append(u.Status.Claims, *c)
		}
	}
	if export == nil {
		u.condition(metav1.Condition{Type: v1alpha1.ConditionClaimsDecided, Status: metav1.ConditionUnknown, Reason: reason, Message: "what the export claims is not known"})
		return
	}
	u.decided(offered)
}

// decided sets the condition that reports whether each claim is accepted as it is now, or rejected.
func (u *bindingUpdate) decided(offered []v1alpha1.APIClaim) {
	var undecided []string
	for _, c := range offered {
		i := slices.IndexFunc(u.Spec.Claims, func(d v1alpha1.ClaimDecision) bool { return d.Group == c.Group && d.Resource == c.Resource })
		name := claimName(c)
		switch accepted := binding.ClaimOf(u.Status.Claims, c.Group, c.Resource); {
		case i < 0:
			undecided = append(undecided, name+" is neither accepted nor rejected")
		case u.Spec.Claims[i].State == v1alpha1.ClaimRejected:
		case accepted == nil:
			undecided = append(undecided, name+" was accepted before it was claimed: reject it and accept it anew")
		case !equality.Semantic.DeepEqual(*accepted, c):
			undecided = append(undecided, name+" has changed since it was accepted: reject it and accept it anew")
		}
	}
	decided := metav1.Condition{
		Type: v1alpha1.ConditionClaimsDecided, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDecided, Message: "each claim is accepted or rejected",
	}
	if undecided != nil {
		decided.Status, decided.Reason, decided.Message = metav1.ConditionFalse, v1alpha1.ReasonUndecided, strings.Join(undecided, "; ")
	}
	u.condition(decided)
}

func claimName(c v1alpha1.APIClaim) string {
	if c.Group == "" {
		return fmt.Sprintf("the claim of %s", c.Resource)
	}
	return fmt.Sprintf("the claim of %s.%s", c.Resource, c.Group)
}

func (u *bindingUpdate) condition(c metav1.Condition) {
	c.ObservedGeneration, c.LastTransitionTime = u.Generation, metav1.NewTime(u.server.config.Now())
	meta.SetStatusCondition(&u.Status.Conditions, c)
}
