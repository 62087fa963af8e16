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

// claims keeps what has been accepted, as it was claimed then, and says what is undecided.
func (of *settling) claims(export *v1alpha1.APIExport, reason string, decided []v1alpha1.ClaimDecision) {
	var offered []v1alpha1.APIClaim
	if export != nil {
		offered = export.Spec.Claims
	}
	had := of.Status.Claims
	of.Status.Claims = nil
	for _, d := range of.Spec.Claims {
		if d.State != v1alpha1.ClaimAccepted {
			continue
		}
		from := offered
		if slices.Contains(decided, d) {
			from = had
		}
		if c := binding.ClaimOf(from, d.Group, d.Resource); c != nil {
			of.Status.Claims = append(of.Status.Claims, *c)
		}
	}
	if export == nil {
		of.condition(metav1.Condition{Type: v1alpha1.ConditionClaimsDecided, Status: metav1.ConditionUnknown, Reason: reason, Message: "what the export claims is not known"})
		return
	}
	of.decided(offered)
}

// decided says whether each claim is accepted as it is, or rejected.
func (of *settling) decided(offered []v1alpha1.APIClaim) {
	var undecided []string
	for _, c := range offered {
		i := slices.IndexFunc(of.Spec.Claims, func(d v1alpha1.ClaimDecision) bool { return d.Group == c.Group && d.Resource == c.Resource })
		name := claimName(c)
		switch accepted := binding.ClaimOf(of.Status.Claims, c.Group, c.Resource); {
		case i < 0:
			undecided = append(undecided, name+" is neither accepted nor rejected")
		case of.Spec.Claims[i].State == v1alpha1.ClaimRejected:
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
	of.condition(decided)
}

func claimName(c v1alpha1.APIClaim) string {
	if c.Group == "" {
		return fmt.Sprintf("the claim of %s", c.Resource)
	}
	return fmt.Sprintf("the claim of %s.%s", c.Resource, c.Group)
}

func (of *settling) condition(c metav1.Condition) {
	c.ObservedGeneration, c.LastTransitionTime = of.Generation, metav1.NewTime(of.server.config.Now())
	meta.SetStatusCondition(&of.Status.Conditions, c)
}
