package health

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// Has says whether there is more to the health of the resource's objects than that they are
// there. Of the kinds of Kubernetes without a status there is not, so that only metadata of
// their objects is read. Whatever else there is may have one: a custom resource has its
// status also where its definition names no subresource for it.
func Has(r key.Resource) bool { return !slices.Contains(stateless(r.APIGroup()), r.Resource) }

// stateless are the resources of a group of Kubernetes that have no status.
func stateless(group string) []string {
	switch group {
	case "":
		return []string{"configmaps", "endpoints", "events", "limitranges", "podtemplates", "secrets", "serviceaccounts"}
	case "admissionregistration.k8s.io":
		return []string{
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
			"validatingadmissionpolicybindings", "validatingwebhookconfigurations",
		}
	case "apps":
		return []string{"controllerrevisions"}
	case "coordination.k8s.io":
		return []string{"leases"}
	case "discovery.k8s.io":
		return []string{"endpointslices"}
	case "events.k8s.io":
		return []string{"events"}
	case "networking.k8s.io":
		return []string{"ingressclasses", "ipaddresses", "networkpolicies"}
	case "node.k8s.io":
		return []string{"runtimeclasses"}
	case "rbac.authorization.k8s.io":
		return []string{"clusterrolebindings", "clusterroles", "rolebindings", "roles"}
	case "resource.k8s.io":
		return []string{"deviceclasses", "resourceclaimtemplates", "resourceslices"}
	case "scheduling.k8s.io":
		return []string{"priorityclasses"}
	case "storage.k8s.io":
		return []string{"csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattributesclasses"}
	default:
		return nil
	}
}
