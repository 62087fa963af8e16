package health

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// HasStatus reports whether objects of the resource may have a status, on which their health depends. Some kinds
// of Kubernetes have none: their objects are healthy if they exist, and the agent reads only their metadata. Any
// other kind may have one: a custom resource has its status also if its definition names no subresource for it.
func HasStatus(r key.Resource) bool { return !slices.Contains(stateless(r.APIGroup()), r.Resource) }

// stateless returns the resources of a group of Kubernetes that have no status.
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
