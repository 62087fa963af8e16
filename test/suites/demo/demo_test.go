// Package demo runs `orrery demo` as a user does: the story must come true, and
// the process must end as it says.
package demo

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/test/support/env"
)

// The first location is a real cluster whose pods run; it is left as it was found,
// but for the namespace.
func TestOnRealCluster(t *testing.T) {
	cluster := env.StartCluster(t, "real")
	home := t.TempDir() + "/none"
	out := env.Orrery(t, home, "demo", "--once", "--locations", "2", "--kubeconfig", cluster.Kubeconfig)
	for _, want := range []string{
		"Real clusters: north (" + cluster.Config.Host + ").",
		"Simulated clusters: south.",
		"✓ all 8 steps came true",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the story lacks %q:\n%s", want, out)
		}
	}
	deployments, err := cluster.Client.AppsV1().Deployments(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) > 0 {
		t.Errorf("the demo left Deployments: %v", deployments.Items)
	}
	_, err = cluster.Client.Discovery().ServerResourcesForGroupVersion("shop.example/v1")
	if !apierrors.IsNotFound(err) {
		t.Errorf("the demo left its CRD: %v", err)
	}
}
