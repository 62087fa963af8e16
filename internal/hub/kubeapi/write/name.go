package write

import (
	"net"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"

	"orrery.dev/orrery/internal/protocol/key"
)

// nameRule is Kubernetes' validation of the names of a built-in resource.
func nameRule(r key.Resource) validation.ValidateNameFunc {
	switch r {
	case key.Resource{Group: key.CoreGroup, Resource: "namespaces"}:
		return validation.ValidateNamespaceName
	case key.Resource{Group: key.CoreGroup, Resource: "services"}:
		return validation.NameIsDNS1035Label
	case key.Resource{Group: "apps", Resource: "statefulsets"}:
		return validation.NameIsDNSLabel
	case key.Resource{Group: "networking.k8s.io", Resource: "ipaddresses"}:
		return nameIsAddress
	case key.Resource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:
		return nameIsSegment
	}
	if r.Group == "rbac.authorization.k8s.io" {
		return nameIsSegment
	}
	return validation.NameIsDNSSubdomain
}

// nameIsSegment allows whatever a path can hold.
func nameIsSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

func nameIsAddress(name string, _ bool) []string {
	if ip := net.ParseIP(name); ip == nil || ip.String() != name {
		return []string{"must be an IP address in canonical form"}
	}
	return nil
}

// createsOnUpdate says whether Kubernetes lets a PUT create objects of a built-in resource.
func createsOnUpdate(r key.Resource) bool {
	switch r.Group {
	case "rbac.authorization.k8s.io", "node.k8s.io":
		return true
	case "coordination.k8s.io":
		return r.Resource == "leases"
	case key.CoreGroup:
		switch r.Resource {
		case "limitranges", "events", "services", "endpoints":
			return true
		}
	}
	return false
}

// demandsVersion says whether Kubernetes refuses updates without a resourceVersion for a
// built-in resource.
func demandsVersion(r key.Resource) bool {
	switch r.Group {
	case "admissionregistration.k8s.io", "node.k8s.io", "policy", "coordination.k8s.io", "apiextensions.k8s.io":
		return true
	case "storage.k8s.io":
		switch r.Resource {
		case "csidrivers", "csinodes", "csistoragecapacities", "volumeattachments":
			return true
		}
	}
	return false
}

// returnsDeleted says whether Kubernetes answers a deletion with the deleted object for a
// built-in resource, rather than with a Status.
func returnsDeleted(r key.Resource) bool {
	switch r.Group {
	case "resource.k8s.io":
		return true
	case "storage.k8s.io":
		return r.Resource != "csistoragecapacities"
	case key.CoreGroup:
		switch r.Resource {
		case "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts", "services":
			return true
		}
	}
	return false
}
