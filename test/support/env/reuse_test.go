package env

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leftBehind is what a test may leave in a cluster without controllers: each part of it stays when it
// is deleted, changes what later tests would see, or is a kind of its own.
const leftBehind = `
apiVersion: v1
kind: Namespace
metadata: {name: left}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: held, namespace: left, finalizers: [example.org/held]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {type: NodePort, clusterIP: 10.0.77.1, ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: refuse}
webhooks:
- name: refuse.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

const widgetLeftBehind = `
apiVersion: example.org/v1
kind: Widget
metadata: {name: w, namespace: left, finalizers: [example.org/held]}
`

// TestReusedClusterIsAsNew: a test that gets the cluster of another one finds nothing of it, neither
// objects nor changes nor requests; it gets a new cluster if the former one is not to be used again.
func TestReusedClusterIsAsNew(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := &clusterPool{keeper: &program{name: "clusters", ctx: ctx}}
	defer p.keeper.clean(cancel)
	var first int
	lend := func(name string, f func(t T, c *Cluster)) {
		t.Helper()
		if err := Main(name, func(t T) { f(t, p.take(t, name, clusterOptions{apiOnly: true})) }); err != nil {
			t.Logf("%s: %v", name, err)
		}
	}
	lend("first", func(t T, c *Cluster) {
		first = c.APIServer.cmd.Process.Pid
		KubectlIn(t, c.Kubeconfig, leftBehind, "create", "-f", "-")
		Kubectl(t, c.Kubeconfig, "wait", "--for=condition=Established", "crd/widgets.example.org", "--timeout="+Soon.String())
		KubectlIn(t, c.Kubeconfig, widgetLeftBehind, "create", "-f", "-")
		Kubectl(t, c.Kubeconfig, "delete", "namespace", "left", "--wait=false")
		Kubectl(t, c.Kubeconfig, "delete", "clusterrole", "view")
		Kubectl(t, c.Kubeconfig, "label", "namespace", "default", "left=behind")
	})
	lend("second", func(u T, c *Cluster) {
		if c.APIServer.cmd.Process.Pid != first {
			t.Error("the cluster was not used again")
		}
		if got := c.Requests(u, Filter{Name: "left"}); len(got) > 0 || c.Name != "second" {
			t.Errorf("cluster %q has requests of another test: %+v", c.Name, got)
		}
		if out := KubectlFails(u, c.Kubeconfig, "get", "widgets", "-A"); !strings.Contains(out, "the server doesn't have a resource type") {
			t.Errorf("a kind of another test: %s", out)
		}
		if out := Kubectl(u, c.Kubeconfig, "get", "namespaces", "--show-labels", "-o", "wide"); strings.Contains(out, "left") {
			t.Errorf("a namespace of another test: %s", out)
		}
		Kubectl(u, c.Kubeconfig, "get", "clusterrole", "view")
		Kubectl(u, c.Kubeconfig, "create", "secret", "generic", "one") // which the webhook would refuse
		KubectlIn(u, c.Kubeconfig, leftBehind, "create", "-f", "-")    // names, addresses and ports are free
		if _, err := c.Client.CoreV1().ConfigMaps("left").Patch(u.Context(), "held", types.MergePatchType, []byte(`{"data":{"v":"1"}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("write to a namespace of a name that another test used: %v", err)
		}
		c.KillAPIServer()
		c.StartAPIServer()
		first = c.APIServer.cmd.Process.Pid
	})
	lend("third", func(u T, c *Cluster) {
		if c.APIServer.cmd.Process.Pid != first {
			t.Error("a cluster whose API server was started anew was not used again")
		}
		if _, err := c.Client.CoreV1().Namespaces().Get(u.Context(), "left", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a namespace of another test: %v", err)
		}
		u.Errorf("this test fails")
	})
	lend("fourth", func(u T, c *Cluster) {
		if c.APIServer.cmd.Process.Pid == first {
			t.Error("the cluster of a test that failed was used again")
		}
		first = c.APIServer.cmd.Process.Pid
		c.Rebuild()
	})
	lend("fifth", func(u T, c *Cluster) {
		if n := len(p.free); n != 0 || c.Etcd == nil {
			t.Errorf("%d clusters are kept that were rebuilt", n)
		}
		first = c.APIServer.cmd.Process.Pid
		KubectlIn(u, c.Kubeconfig, `{apiVersion: v1, kind: Node, metadata: {name: node, labels: {site: a}}}`, "create", "-f", "-")
	})
	p.free[0].remember() // as if it was a Node of the new cluster
	lend("sixth", func(u T, c *Cluster) {
		Kubectl(u, c.Kubeconfig, "label", "node", "node", "site=b", "left=behind", "--overwrite")
		Kubectl(u, c.Kubeconfig, "taint", "node", "node", "left=behind:NoSchedule")
		Kubectl(u, c.Kubeconfig, "cordon", "node")
	})
	lend("seventh", func(u T, c *Cluster) {
		if c.APIServer.cmd.Process.Pid != first {
			t.Error("a cluster with changed Nodes was not used again")
		}
		node, err := c.Client.CoreV1().Nodes().Get(u.Context(), "node", metav1.GetOptions{})
		if err != nil {
			u.Fatalf("read the Node: %v", err)
		}
		if state := stateOf(node); state.labels["site"] != "a" || strings.Contains(fmt.Sprint(state), "left") || state.unschedulable {
			t.Errorf("a Node is as another test left it: %+v", state)
		}
		c.Etcd.Setenv("LEFT=behind")
	})
	if n := len(p.free); n != 0 {
		t.Errorf("%d clusters are kept whose etcd has variables of a test", n)
	}
}
