package write

import (
	"net"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"

	"orrery.dev/orrery/internal/protocol/key"
)

// nameRule returns Kubernetes' validation of the names of a built-in resource.
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

// nameIsSegment allows all names that are valid path segments.
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

// createsOnUpdate reports whether a PUT can create objects of a built-in resource in Kubernetes.
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

// demandsVersion reports whether Kubernetes refuses updates of a built-in resource without a
// resourceVersion.
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

// returnsDeleted reports whether Kubernetes answers a deletion of a built-in resource with the deleted
// object instead of a Status.
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
