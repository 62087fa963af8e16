package reconcile

import (
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	accountAnnotation = "kubernetes.io/service-account.name"
	defaultAccount    = "default"
	controllerManager = "kube-controller-manager"
	endpointsManaged  = "endpoints.kubernetes.io/managed-by"
)

// inEveryNamespace reports whether Kubernetes itself, or a platform on it, makes the object, in every namespace or
// for another object, with which it goes. What users make, of the same kind or for the
// same account, does not count.
func inEveryNamespace(r key.Resource, m *ownership.Meta) bool {
	if isPlatforms(r, m) || decide.IsProvided(key.Identity{Resource: r, Namespace: m.Namespace, Name: m.Name}) {
		return true
	}
	switch r {
	case key.NewResource("", "secrets"): // as controllers before Kubernetes 1.24 named them
		return m.Annotations[accountAnnotation] == defaultAccount && strings.HasPrefix(m.Name, defaultAccount+"-token-")
	case key.NewResource("", "endpoints"): // of a Service
		if m.Labels[endpointsManaged] != "" {
			return true
		}
		for i := range m.ManagedFields {
			if m.ManagedFields[i].Manager != controllerManager {
				return false
			}
		}
		return len(m.ManagedFields) > 0
	default:
		return false
	}
}

// The names of what OpenShift makes in every namespace. Its annotations begin with openShift.
const openShift = "openshift.io/"

var (
	openShiftAccounts = []string{"builder", "deployer"}
	openShiftBindings = []string{"system:deployers", "system:image-builders", "system:image-pullers"}
	// bundles are ConfigMaps with the certificates of an authority, of Istio and OpenShift.
	bundles = []string{"istio-ca-root-cert", "openshift-service-ca.crt"}
)

// isPlatforms reports whether a platform on top of Kubernetes makes the object in every namespace. A ServiceAccount or
// Secret that a user has made under such a name lacks the annotations of OpenShift.
func isPlatforms(r key.Resource, m *ownership.Meta) bool {
	marked := slices.ContainsFunc(slices.Collect(maps.Keys(m.Annotations)), func(name string) bool { return strings.HasPrefix(name, openShift) })
	switch r {
	case key.NewResource("", "configmaps"):
		return slices.Contains(bundles, m.Name)
	case key.NewResource("rbac.authorization.k8s.io", "rolebindings"):
		return slices.Contains(openShiftBindings, m.Name)
	case key.NewResource("", "serviceaccounts"):
		return marked && slices.Contains(openShiftAccounts, m.Name)
	case key.NewResource("", "secrets"):
		account := m.Annotations[accountAnnotation]
		its := account == defaultAccount || slices.Contains(openShiftAccounts, account)
		return marked && its && (strings.HasPrefix(m.Name, account+"-dockercfg-") || strings.HasPrefix(m.Name, account+"-token-"))
	default:
		return false
	}
}
