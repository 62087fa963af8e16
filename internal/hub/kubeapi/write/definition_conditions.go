package write

import (
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConversionInert is the condition of a CRD with a conversion webhook. The conversion is stored and
// applied at locations, but no space calls the webhook.
const ConversionInert apiextensionsv1.CustomResourceDefinitionConditionType = "ConversionInert"

// setConversion sets or removes the condition ConversionInert.
func setConversion(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
		apihelpers.RemoveCRDCondition(crd, ConversionInert)
		return
	}
	setCondition(crd, now, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: ConversionInert, Status: apiextensionsv1.ConditionTrue, Reason: "WebhookNotCalled",
		Message: "a space calls no webhooks: objects are converted as by strategy None, which changes nothing but their apiVersion",
	})
}

// setApproval sets the condition KubernetesAPIApprovalPolicyConformant of a CRD in a protected group
// of the Kubernetes community, with the messages of Kubernetes.
func setApproval(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return // a CRD's group is immutable, so there is nothing to take away
	}
	c := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	var state apihelpers.APIApprovalState
	switch state, c.Message = apihelpers.GetAPIApprovalState(crd.Annotations); state {
	case apihelpers.APIApproved:
		c.Status, c.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		c.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalMissing:
		c.Reason = "MissingAnnotation"
	default:
		c.Reason = "InvalidAnnotation"
	}
	setCondition(crd, now, c)
}
