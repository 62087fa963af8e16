package reconcile

import (
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// TestInEveryNamespace: what a cluster or its platform makes in every namespace keeps none from being deleted,
// and what a user has made under such a name does.
func TestInEveryNamespace(t *testing.T) {
	openShift := map[string]string{"openshift.io/internal-registry-pull-secret-ref": "x"}
	secretOf := func(account string, more ...string) map[string]string {
		all := map[string]string{"kubernetes.io/service-account.name": account}
		for _, name := range more {
			all[name] = "x"
		}
		return all
	}
	for _, c := range []struct {
		group, resource, name string
		annotations           map[string]string
		want                  bool
	}{
		{"", "serviceaccounts", "default", nil, true},
		{"", "serviceaccounts", "builder", nil, false},
		{"", "serviceaccounts", "builder", openShift, true},
		{"", "serviceaccounts", "app", openShift, false},
		{"", "configmaps", "kube-root-ca.crt", nil, true},
		{"", "configmaps", "istio-ca-root-cert", nil, true},
		{"", "configmaps", "openshift-service-ca.crt", nil, true},
		{"", "configmaps", "settings", nil, false},
		{"", "secrets", "deployer-dockercfg-abcde", secretOf("deployer", "openshift.io/token-secret.name"), true},
		{"", "secrets", "deployer-dockercfg-abcde", secretOf("deployer"), false},
		{"", "secrets", "app-dockercfg-abcde", secretOf("app", "openshift.io/token-secret.name"), false},
		{"", "secrets", "default-token-abcde", secretOf("default"), true},
		{"rbac.authorization.k8s.io", "rolebindings", "system:image-pullers", nil, true},
		{"rbac.authorization.k8s.io", "rolebindings", "admin", nil, false},
		{"apps", "deployments", "default", nil, false},
	} {
		m := &ownership.Meta{Namespace: "n", Name: c.name, Annotations: c.annotations}
		if got := inEveryNamespace(key.NewResource(c.group, c.resource), m); got != c.want {
			t.Errorf("%s %s %v: %t", c.resource, c.name, c.annotations, got)
		}
	}
}
