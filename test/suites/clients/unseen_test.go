package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/ssa"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// waitedEverywhere defines a kind whose statuses have no observedGeneration, and places the objects
// that clients wait for.
const waitedEverywhere = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.example.org, labels: {for: edge}}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: gizmos, singular: gizmo, kind: Gizmo, listKind: GizmoList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true},
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: edge}
spec:
  locations: [{names: [edge]}]
  downsync: [{labelSelectors: [{matchLabels: {for: edge}}], returnStatus: Singleton}]
`

// waited are objects with and without an observedGeneration in their status. NAME and VERSION are replaced.
const waited = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: default, labels: {for: edge}}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: web, image: "example.org/web:VERSION"}]}
---
apiVersion: example.org/v1
kind: Gizmo
metadata: {name: NAME, namespace: default, labels: {for: edge}}
spec: {version: "VERSION"}
`

// Statuses by which the controllers of a site call an object done. GENERATION is replaced by the generation there.
const (
	deploymentDone = `{"status":{"observedGeneration":GENERATION,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,
		"conditions":[{"type":"Available","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"}]}}`
	gizmoDone = `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
)

var gizmos = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gizmos"}

// clientTimeout is the timeout with which clients are started that must not succeed.
const clientTimeout = 3 * time.Second

// TestUnseenByClients runs clients that wait for objects and for their Placement: Helm, Flux's apply engine,
// kubectl wait and kubectl rollout status. None of them succeeds while the site has an earlier version, or cannot be
// observed. All of them succeed once the site is as desired.
func TestUnseenByClients(t *testing.T) {
	w := world.New(t, "--heartbeat=1s", "--disconnected-after=3s")
	s := &space{hub: w.Hub, kubeconfig: w.AddSpace("shop")}
	s.apply(t, waitedEverywhere)
	u := &unseenSite{t: t, w: w, s: s, Site: w.Join("edge", nil, env.APIOnly()), chart: waitedChart(t), flux: fluxManager(t, s.config())}
	w.Eventually("the kind is served", func() error {
		_, err := env.TryKubectl(t, s.kubeconfig, "get", "gizmos")
		return err
	})
	u.write("1")
	s.helm(t, "install", "waited", u.chart, "--set=version=1")
	u.finish("1")
	u.allSucceed(u.start("1"))

	env.Orrery(t, w.Root, "location", "pause", "edge")
	w.Eventually("the agent has halted", func() error {
		if halted := env.Kubectl(t, w.Root, "get", "location", "edge", "-o", "jsonpath={.status.agent.halted}"); halted == "" {
			return errors.New("it has not")
		}
		return nil
	})
	u.write("2")
	u.isNotReady()
	u.noneSucceeds("2", "the site has an earlier version")
	clients := u.start("2")
	u.noneHasEnded(clients, "the site has an earlier version")
	env.Orrery(t, w.Root, "location", "resume", "edge")
	u.finish("2")
	u.allSucceed(clients)

	u.Agent.Kill()
	for _, o := range u.objects("2") {
		w.Eventually(o.GetKind()+" "+o.GetName()+" is Reconciling", func() error {
			status := env.Kubectl(t, s.kubeconfig, "get", o.GetKind(), o.GetName(), "-o", "jsonpath={.status}")
			if !strings.Contains(status, `"Reconciling"`) {
				return errors.New(status)
			}
			return nil
		})
	}
	u.isNotReady()
	u.noneSucceeds("2", "the site cannot be observed")
	clients = u.start("2")
	u.noneHasEnded(clients, "the site cannot be observed")
	u.Agent.Start()
	u.allSucceed(clients)
}

// unseenSite is a site with objects for which clients wait: those named helm, of a chart, and those
// named flux.
type unseenSite struct {
	*world.Site
	t     *testing.T
	w     *world.World
	s     *space
	chart string
	flux  *ssa.ResourceManager
}

// waitedChart writes a chart of the waited objects.
func waitedChart(t *testing.T) string {
	t.Helper()
	chart := t.TempDir()
	template := strings.NewReplacer("NAME", "helm", "VERSION", "{{ .Values.version }}").Replace(waited)
	for name, content := range map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: waited, version: 0.1.0}", "values.yaml": `version: "1"`, "templates/waited.yaml": template,
	} {
		file := filepath.Join(chart, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chart
}

// objects returns the objects that Flux applies.
func (u *unseenSite) objects(version string) []*unstructured.Unstructured {
	u.t.Helper()
	return fluxObjects(u.t, strings.NewReplacer("NAME", "flux", "VERSION", version).Replace(waited))
}

// write applies a version by Flux's engine. Helm writes it when it is started.
func (u *unseenSite) write(version string) {
	u.t.Helper()
	if _, err := u.flux.ApplyAllStaged(u.t.Context(), u.objects(version), ssa.DefaultApplyOptions()); err != nil {
		u.t.Fatal(err)
	}
}

// finish waits until the site has a version of all objects, and calls it done as controllers do.
func (u *unseenSite) finish(version string) {
	u.t.Helper()
	for _, name := range []string{"helm", "flux"} {
		for resource, done := range map[schema.GroupVersionResource]string{world.Deployments: deploymentDone, gizmos: gizmoDone} {
			target := u.Client.Resource(resource).Namespace(metav1.NamespaceDefault)
			u.w.Eventually(fmt.Sprintf("%s %s has version %s and is done", resource.Resource, name, version), func() error {
				o, err := target.Get(u.t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if spec := fmt.Sprint(o.Object["spec"]); !strings.Contains(spec, "web:"+version) && !strings.Contains(spec, "version:"+version) {
					return errors.New(spec)
				}
				status := strings.ReplaceAll(done, "GENERATION", strconv.FormatInt(o.GetGeneration(), 10))
				_, err = target.Patch(u.t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
				return err
			})
		}
	}
}

// waitingClient is a client that waits until objects are done.
type waitingClient struct {
	name string
	// wait returns nil when the client has succeeded.
	wait func(version string, timeout time.Duration) error
	// waits is part of the error of a client that has found objects that are not done.
	waits string
}

func (u *unseenSite) clients() []waitingClient {
	command := func(binary string, args ...string) func(string, time.Duration) error {
		return func(version string, timeout time.Duration) error {
			all := make([]string, 0, len(args)+1)
			for _, arg := range args {
				all = append(all, strings.ReplaceAll(arg, "VERSION", version))
			}
			_, err := env.Command{Binary: binary, Kubeconfig: u.s.kubeconfig, Args: append(all, "--timeout="+timeout.String())}.Try(u.t)
			return err
		}
	}
	return []waitingClient{
		{"helm upgrade --wait", command("helm", "upgrade", "waited", u.chart, "--set=version=VERSION", "--wait"), "not ready"},
		{"kubectl rollout status", command("kubectl", "rollout", "status", "deployment/flux"), "timed out waiting for the condition"},
		{"kubectl wait, Deployment", command("kubectl", "wait", "deployment/flux", "--for=condition=Available"), "timed out waiting for the condition"},
		{"kubectl wait, Gizmo", command("kubectl", "wait", "gizmo/flux", "--for=condition=Ready"), "timed out waiting for the condition"},
		{"kubectl wait, Placement", command("kubectl", "wait", "placement/edge", "--for=condition=Ready"), "timed out waiting for the condition"},
		{"Flux", func(version string, timeout time.Duration) error {
			return u.flux.Wait(u.objects(version), ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: timeout})
		}, "InProgress"},
		{"Flux, Placement", func(_ string, timeout time.Duration) error {
			return u.flux.Wait(fluxObjects(u.t, waitedEverywhere)[1:], ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: timeout})
		}, "InProgress"},
	}
}

// isNotReady waits until the Placement is not Ready: its counts follow its objects after a moment.
func (u *unseenSite) isNotReady() {
	u.t.Helper()
	u.w.Eventually("the Placement is not Ready", func() error {
		is := env.Kubectl(u.t, u.s.kubeconfig, "get", "placement", "edge", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if is != "False" && is != "Unknown" {
			return fmt.Errorf("its condition Ready is %q", is)
		}
		return nil
	})
}

// noneSucceeds starts each client with a short timeout: it finds objects that are not done.
func (u *unseenSite) noneSucceeds(version, why string) {
	u.t.Helper()
	u.t.Run(why, func(t *testing.T) {
		for _, c := range u.clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				for timeout := clientTimeout; ; timeout *= 2 { // on a busy machine a client takes long until it waits
					err := c.wait(version, timeout)
					if err == nil {
						t.Fatalf("it succeeds, although %s", why)
					}
					if strings.Contains(err.Error(), c.waits) {
						return
					}
					if timeout > soon {
						t.Fatalf("within %s it does not come to wait: %v", timeout, err)
					}
				}
			})
		}
	})
}

// ending is the end of a client.
type ending struct {
	name string
	err  error
}

// start starts all clients.
func (u *unseenSite) start(version string) <-chan ending {
	all := u.clients()
	ended := make(chan ending, len(all))
	for _, c := range all {
		go func() { ended <- ending{c.name, c.wait(version, soon)} }()
	}
	return ended
}

// noneHasEnded checks that all clients run.
func (u *unseenSite) noneHasEnded(clients <-chan ending, why string) {
	u.t.Helper()
	select {
	case e := <-clients:
		u.t.Fatalf("%s ended with error %v, although %s", e.name, e.err, why)
	default:
	}
}

// allSucceed waits until all clients have succeeded.
func (u *unseenSite) allSucceed(clients <-chan ending) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 2*soon)
	defer cancel()
	for range cap(clients) {
		select {
		case e := <-clients:
			if e.err != nil {
				u.t.Errorf("%s: %v", e.name, e.err)
			}
		case <-ctx.Done():
			u.t.Fatalf("a client has not ended after %s", 2*soon)
		}
	}
}
