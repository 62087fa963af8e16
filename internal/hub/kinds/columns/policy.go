package columns

import (
	"cmp"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func admissionPrinters() map[string]printer {
	paramKind := func(k *admissionv1.ParamKind) string {
		if k == nil {
			return unset
		}
		return k.APIVersion + "/" + k.Kind
	}
	return map[string]printer{
		"MutatingAdmissionPolicy": printed(cols("Name", "Mutations#", "ParamKind", "Age"), func(p *admissionv1.MutatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKind(p.Spec.ParamKind), age(p.CreationTimestamp, now)}
		}),
		"MutatingAdmissionPolicyBinding": printed(cols("Name", "PolicyName", "ParamRef", "Age"), func(b *admissionv1.MutatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRef(b.Spec.ParamRef), age(b.CreationTimestamp, now)}
		}),
		"MutatingWebhookConfiguration": printed(cols("Name", "Webhooks#", "Age"), func(c *admissionv1.MutatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), age(c.CreationTimestamp, now)}
		}),
		"ValidatingAdmissionPolicy": printed(cols("Name", "Validations#", "ParamKind", "Age"), func(p *admissionv1.ValidatingAdmissionPolicy, now time.Time) []any {
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKind(p.Spec.ParamKind), age(p.CreationTimestamp, now)}
		}),
		"ValidatingAdmissionPolicyBinding": printed(cols("Name", "PolicyName", "ParamRef", "Age"), func(b *admissionv1.ValidatingAdmissionPolicyBinding, now time.Time) []any {
			return []any{b.Name, b.Spec.PolicyName, paramRef(b.Spec.ParamRef), age(b.CreationTimestamp, now)}
		}),
		"ValidatingWebhookConfiguration": printed(cols("Name", "Webhooks#", "Age"), func(c *admissionv1.ValidatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), age(c.CreationTimestamp, now)}
		}),
	}
}

func paramRef(r *admissionv1.ParamRef) string {
	switch {
	case r == nil:
		return unset
	case r.Name != "" && r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r.Name != "":
		return "*/" + r.Name // the scope of the parameter's kind is unknown here
	case r.Selector != nil:
		return selectorString(r.Selector)
	default:
		return unset
	}
}

func definitionPrinters() map[string]printer {
	return map[string]printer{"CustomResourceDefinition": createdPrinter()}
}

func apiServicePrinters() map[string]printer {
	return map[string]printer{
		"APIService": printed(cols("Name", "Service", "Available", "Age"), func(s *apiregistrationv1.APIService, now time.Time) []any {
			service, available := "Local", "Unknown"
			if r := s.Spec.Service; r != nil {
				service = r.Namespace + "/" + r.Name
			}
			for _, c := range s.Status.Conditions {
				if c.Type != apiregistrationv1.Available {
					continue
				}
				available = string(c.Status)
				if c.Status != apiregistrationv1.ConditionTrue {
					available += " (" + c.Reason + ")"
				}
			}
			return []any{s.Name, service, available, age(s.CreationTimestamp, now)}
		}),
	}
}

func certificatePrinters() map[string]printer {
	return map[string]printer{
		"CertificateSigningRequest": printed(cols("Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"),
			func(c *certificatesv1.CertificateSigningRequest, now time.Time) []any {
				lasts := none
				if s := c.Spec.ExpirationSeconds; s != nil {
					lasts = duration.HumanDuration(time.Duration(*s) * time.Second)
				}
				return []any{c.Name, age(c.CreationTimestamp, now), orNone(c.Spec.SignerName), c.Spec.Username, lasts, requestState(c)}
			}),
	}
}

func requestState(c *certificatesv1.CertificateSigningRequest) string {
	contained := map[certificatesv1.RequestConditionType]bool{}
	for _, condition := range c.Status.Conditions {
		contained[condition.Type] = true
	}
	state := "Pending"
	switch {
	case contained[certificatesv1.CertificateDenied]:
		state = "Denied"
	case contained[certificatesv1.CertificateApproved]:
		state = "Approved"
	}
	if contained[certificatesv1.CertificateFailed] {
		state += ",Failed"
	}
	if len(c.Status.Certificate) > 0 {
		state += ",Issued"
	}
	return state
}

func coordinationPrinters() map[string]printer {
	return map[string]printer{
		"Lease": printed(cols("Name", "Holder", "Age"), func(l *coordinationv1.Lease, now time.Time) []any {
			return []any{l.Name, or(l.Spec.HolderIdentity, ""), age(l.CreationTimestamp, now)}
		}),
	}
}

func flowPrinters() map[string]printer {
	return map[string]printer{
		"FlowSchema": printed(cols("Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"),
			func(f *flowcontrolv1.FlowSchema, now time.Time) []any {
				method, missing := none, "?"
				if m := f.Spec.DistinguisherMethod; m != nil {
					method = string(m.Type)
				}
				for _, c := range f.Status.Conditions {
					if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
						missing = string(c.Status)
					}
				}
				return []any{f.Name, f.Spec.PriorityLevelConfiguration.Name, int64(cmp.Or(f.Spec.MatchingPrecedence, 1000)), method, age(f.CreationTimestamp, now), missing}
			}),
		"PriorityLevelConfiguration": printed(cols("Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"),
			func(p *flowcontrolv1.PriorityLevelConfiguration, now time.Time) []any {
				shares, queues, hand, length := any(none), any(none), any(none), any(none)
				if l := p.Spec.Limited; l != nil {
					shares = int64(or(l.NominalConcurrencyShares, 30))
					if q := l.LimitResponse.Queuing; q != nil {
						queues, hand, length = int64(cmp.Or(q.Queues, 64)), int64(cmp.Or(q.HandSize, 8)), int64(cmp.Or(q.QueueLengthLimit, 50))
					}
				}
				return []any{p.Name, string(p.Spec.Type), shares, queues, hand, length, age(p.CreationTimestamp, now)}
			}),
	}
}

func policyPrinters() map[string]printer {
	orNA := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return map[string]printer{
		"PodDisruptionBudget": printed(cols("Name", "Min Available", "Max Unavailable", "Allowed Disruptions#", "Age"),
			func(b *policyv1.PodDisruptionBudget, now time.Time) []any {
				return []any{b.Name, orNA(b.Spec.MinAvailable), orNA(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), age(b.CreationTimestamp, now)}
			}),
	}
}

func rbacPrinters() map[string]printer {
	binding := cols("Name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+")
	cells := func(m metav1.ObjectMeta, ref rbacv1.RoleRef, subjects []rbacv1.Subject, now time.Time) []any {
		names := map[string][]string{}
		for _, s := range subjects {
			name := s.Name
			if s.Kind == rbacv1.ServiceAccountKind && s.Namespace != "" {
				name = s.Namespace + "/" + s.Name
			}
			names[s.Kind] = append(names[s.Kind], name)
		}
		return []any{m.Name, ref.Kind + "/" + ref.Name, age(m.CreationTimestamp, now), strings.Join(names[rbacv1.UserKind], ", "),
			strings.Join(names[rbacv1.GroupKind], ", "), strings.Join(names[rbacv1.ServiceAccountKind], ", ")}
	}
	return map[string]printer{
		"ClusterRole": createdPrinter(),
		"Role":        createdPrinter(),
		"ClusterRoleBinding": printed(binding, func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
			return cells(b.ObjectMeta, b.RoleRef, b.Subjects, now)
		}),
		"RoleBinding": printed(binding, func(b *rbacv1.RoleBinding, now time.Time) []any {
			return cells(b.ObjectMeta, b.RoleRef, b.Subjects, now)
		}),
	}
}
