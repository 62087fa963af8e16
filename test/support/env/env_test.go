package env

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: registry.example/web:1}]}
`

func TestClusterRunsPods(t *testing.T) {
	began := time.Now()
	c := StartCluster(t, "a")
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))

	KubectlIn(t, c.Kubeconfig, deployment, "apply", "-f", "-")
	if out := KubectlFails(t, c.Kubeconfig, "get", "deployment", "other"); !strings.Contains(out, "NotFound") {
		t.Errorf("the error of a missing object is %q", out)
	}
	Eventually(t, Soon, func() error { return running(t, c, 3) })
	Kubectl(t, c.Kubeconfig, "rollout", "status", "deployment/web", "--timeout="+Soon.String())

	// The part that tests break: pods and nodes come through it unharmed.
	c.KillAPIServer()
	if _, err := TryKubectl(t, c.Kubeconfig, "get", "pods"); err == nil {
		t.Error("the API server still answers after it was killed")
	}
	c.StartAPIServer()
	Kubectl(t, c.Kubeconfig, "scale", "deployment/web", "--replicas=4")
	Eventually(t, Soon, func() error { return running(t, c, 4) })

	if u := c.APIServer.Usage(); u.RSSAnon <= 0 || u.RSS < u.RSSAnon || u.CPU <= 0 {
		t.Errorf("usage of the API server is %+v", u)
	}
	c.Stop()
	if c.APIServer.Running() {
		t.Error("the API server runs after Stop")
	}
}

func running(t *testing.T, c *Cluster, want int) error {
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return err
	}
	n := 0
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d of %d pods run, want %d", n, len(pods.Items), want)
	}
	return nil
}

func TestRequestsAreCounted(t *testing.T) {
	c := StartCluster(t, "a", APIOnly())
	Kubectl(t, c.AgentKubeconfig, "create", "configmap", "one")
	before := time.Now()
	Kubectl(t, c.AgentKubeconfig, "create", "configmap", "two")
	Kubectl(t, c.AgentKubeconfig, "get", "configmap", "two")
	Kubectl(t, c.Kubeconfig, "create", "configmap", "three")

	for _, test := range []struct {
		filter Filter
		want   string
	}{
		{Filter{User: AgentUser, Writes: true}, "create one, create two"},
		{Filter{User: AgentUser, Resource: "configmaps", After: before}, "create two, get two"},
		{Filter{UserAgent: "kubectl/" + openapi.Kubernetes, Verbs: []string{"create"}}, "create one, create two, create three"},
		{Filter{User: AdminUser, Name: "two"}, ""},
	} {
		Eventually(t, Soon, func() error {
			var got []string
			for _, e := range c.Requests(t, test.filter) {
				got = append(got, e.Verb+" "+e.Object.Name)
			}
			if s := strings.Join(got, ", "); s != test.want {
				return fmt.Errorf("requests for %+v are %q, want %q", test.filter, s, test.want)
			}
			return nil
		})
	}
}

func TestKubectlIsTheRelease(t *testing.T) {
	c := StartCluster(t, "a", APIOnly())
	out := Kubectl(t, c.Kubeconfig, "version")
	for _, want := range []string{"Client Version: " + openapi.Kubernetes, "Server Version: " + openapi.Kubernetes} {
		if !strings.Contains(out, want) {
			t.Errorf("kubectl version does not say %q: %s", want, out)
		}
	}
}

func TestMainReportsFailureAndCleansUp(t *testing.T) {
	var trace []string
	err := Main("bench", func(t T) {
		t.Cleanup(func() { trace = append(trace, "outer") })
		t.Cleanup(func() { trace = append(trace, "inner") })
		Eventually(t, 0, func() error { return errors.New("never") })
		trace = append(trace, "after")
	})
	if err == nil {
		t.Error("a program that failed returned no error")
	}
	if got := strings.Join(trace, " "); got != "inner outer" {
		t.Errorf("ran %q", got)
	}
	if err := Main("bench", func(T) {}); err != nil {
		t.Errorf("a program that did not fail returned %v", err)
	}
}

func TestThroughoutEndsAtTheFirstError(t *testing.T) {
	calls := 0
	err := Main("watch", func(t T) {
		Throughout(t, time.Hour, func() error {
			if calls++; calls == 3 {
				return errors.New("broken")
			}
			return nil
		})
	})
	if err == nil || calls != 3 {
		t.Errorf("returned %v after %d calls", err, calls)
	}
	if err := Main("watch", func(t T) { Throughout(t, 0, func() error { return nil }) }); err != nil {
		t.Errorf("nothing broke, but it returned %v", err)
	}
}
