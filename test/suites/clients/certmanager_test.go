package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// issuer is what cert-manager's users write.
const issuer = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: own, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: shop, namespace: default}
spec:
  secretName: shop-tls
  dnsNames: [shop.example]
  issuerRef: {name: own}
`

// TestCertManagerByKubectl applies cert-manager's CRDs by kubectl, as its instructions
// say, and objects of them at once.
func TestCertManagerByKubectl(t *testing.T) {
	s := newSpace(t)
	var manifests strings.Builder
	files, err := filepath.Glob(filepath.Join(certManager.dir(t), "deploy", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no CRDs: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		manifests.WriteString("---\n" + string(text))
	}
	s.timed(t, "kubectl apply", func() { s.apply(t, manifests.String()) })
	s.timed(t, "objects right after", func() { s.apply(t, issuer) })
	if out := env.Kubectl(t, s.kubeconfig, "get", "certificates"); !strings.Contains(out, "READY") || !strings.Contains(out, "shop-tls") {
		t.Errorf("kubectl get certificates prints\n%s", out)
	}
	refused := env.KubectlFails(t, s.kubeconfig, "patch", "certificate", "shop", "--type=merge", `--patch={"spec":{"renewBefore":5}}`)
	if !strings.Contains(refused, "spec.renewBefore") {
		t.Errorf("what its schema forbids: %s", refused)
	}
	// Client-side apply fails: its annotation, which holds all that was applied, is too
	// long.
	env.KubectlIn(t, s.kubeconfig, manifests.String(), "diff", "--server-side", "-f", "-")
	env.KubectlIn(t, s.kubeconfig, manifests.String(), "delete", "-f", "-")
	env.KubectlFails(t, s.kubeconfig, "get", "certificates")
}

// shopWaits makes what is in cert-manager's namespace run at a location, whose status
// comes back.
const shopWaits = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: cert-manager}
spec:
  locations: [{names: [berlin]}]
  downsync: [{namespaces: [cert-manager], returnStatus: Singleton}]
`

// TestHelmWaits shows that where a location runs what a chart has, and its status comes
// back, Helm waits for workloads and hooks as it does at a cluster.
func TestHelmWaits(t *testing.T) {
	w := world.New(t)
	s := &space{hub: w.Hub, kubeconfig: w.AddSpace("shop")}
	chart := certManagerChart(t)
	install := []string{"install", "cert-manager", chart, "--namespace=cert-manager", "--create-namespace", "--set=crds.enabled=true"}
	env.Kubectl(t, s.kubeconfig, "create", "namespace", "kube-system") // where the chart has its leases' roles
	t.Run("not without a location", func(t *testing.T) {
		output := s.helmFails(t, append(install, "--wait", "--timeout=30s")...)
		if !strings.Contains(output, "resource Deployment/cert-manager/cert-manager not ready") || !strings.Contains(output, "context deadline exceeded") {
			t.Errorf("helm install without a location fails with the wrong message:\n%s", output)
		}
		if h := s.history(t, "cert-manager"); h != "1 failed" {
			t.Errorf("the history is %s", h)
		}
		s.helm(t, "uninstall", "cert-manager", "--namespace=cert-manager", "--wait", "--timeout=14m")
	})

	w.Join("berlin", nil)
	s.apply(t, shopWaits)
	s.timed(t, "install and wait", func() { s.helm(t, append(install, "--wait", "--timeout=14m")...) })
	s.apply(t, issuer)
	if out := env.Kubectl(t, s.kubeconfig, "-n", "cert-manager", "rollout", "status", "deployment/cert-manager"); !strings.Contains(out, "successfully rolled out") {
		t.Errorf("kubectl rollout status prints %s", out)
	}
	s.timed(t, "upgrade and wait", func() {
		s.helm(t, "upgrade", "cert-manager", chart, "--namespace=cert-manager", "--reuse-values", "--set=replicaCount=2", "--wait", "--timeout=14m")
	})
	s.helm(t, "uninstall", "cert-manager", "--namespace=cert-manager", "--wait", "--timeout=14m")
}
