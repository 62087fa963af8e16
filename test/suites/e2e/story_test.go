package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const app = `
apiVersion: v1
kind: Namespace
metadata: {name: web, labels: {app: web}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
        ports: [{containerPort: 8080}]
        resources: {requests: {cpu: 10m}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: web, labels: {app: web}}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: implied, labels: {app: web}}
data: {greeting: hello}
`

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org, labels: {app: web}}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}, colour: {type: string, default: blue}}}
`

const widget = `
apiVersion: example.org/v1
kind: Widget
metadata: {name: one, namespace: web, labels: {app: web}}
spec: {size: 3}
`

const everywhere = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: web}
spec:
  locations: [{selector: {matchExpressions: [{key: runs-web, operator: Exists}]}}]
  downsync: [{labelSelectors: [{matchLabels: {app: web}}]}]
`

// rolledOut shows that kubectl in the space waits until all locations have what they should,
// and then says so.
func (w *shop) rolledOut(replicas string, sites ...*world.Site) {
	w.t.Helper()
	env.Kubectl(w.t, w.space, "-n", "web", "rollout", "status", "deployment/web", "--timeout="+world.Soon.String())
	for _, s := range sites {
		d, err := s.Get(w.t, world.Deployments, "web", "web")
		if err != nil {
			w.t.Fatal(err)
		}
		ready, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas")
		if fmt.Sprint(ready) != replicas {
			w.t.Errorf("rolled out with %d replicas at a location, want %s", ready, replicas)
		}
	}
	env.Kubectl(w.t, w.space, "-n", "web", "wait", "--for=condition=Available", "deployment/web", "--timeout="+world.Soon.String())
	if out := env.Kubectl(w.t, w.space, "-n", "web", "get", "deployment", "web"); !strings.Contains(out, replicas+"/"+replicas) {
		w.t.Errorf("kubectl get says %s", out)
	}
}

// TestMainJob runs the main use case of a user from beginning to end.
func TestMainJob(t *testing.T) {
	t.Parallel()
	w := newShop(t, "north", "south")
	north, south := w.Sites["north"], w.Sites["south"]

	// Described once, and placed by label.
	w.kubectl("create", "namespace", "implied")
	w.apply(app)
	w.apply(widgetCRD)
	w.apply(widget)
	w.apply(everywhere)
	env.Kubectl(t, w.Root, "label", "location", "north", "runs-web=yes")
	w.expectField(north, world.Deployments, "web", "web", "2", "status", "readyReplicas")
	w.expectField(north, widgets, "web", "one", "blue", "spec", "colour")
	w.Invariants()

	// Ready in the space, as at the one location that has it.
	w.Eventually("kubectl shows the Deployment ready in the space", func() error {
		out, err := env.TryKubectl(t, w.space, "-n", "web", "get", "deployment", "web")
		if err == nil && !strings.Contains(out, "2/2") {
			err = fmt.Errorf("kubectl printed %q", out)
		}
		return err
	})
	env.Kubectl(t, w.space, "-n", "web", "rollout", "status", "deployment/web", "--timeout="+world.Soon.String())
	w.expectCounts("web", "1 location(s), all applied", func(p placementStatus) bool {
		return p.Locations == 1 && p.Assigned == 6 && p.Applied == 6 && p.Failed == 0
	})

	// Edited in the space.
	w.kubectl("-n", "web", "scale", "deployment/web", "--replicas=3")
	w.expectField(north, world.Deployments, "web", "web", "3", "status", "readyReplicas")
	w.kubectl("-n", "implied", "patch", "configmap", "settings", "--type=json", "-p", `[{"op":"remove","path":"/data/greeting"},{"op":"add","path":"/data/farewell","value":"bye"}]`)
	w.expectField(north, world.ConfigMaps, "implied", "settings", "map[farewell:bye]", "data")

	w.tamper(north)

	// Moved by a label: to both, then to the other one only.
	env.Kubectl(t, w.Root, "label", "location", "south", "runs-web=yes")
	w.expectField(south, world.Deployments, "web", "web", "3", "status", "readyReplicas")
	w.rolledOut("3", north, south)
	w.kubectl("-n", "web", "scale", "deployment/web", "--replicas=2")
	for _, s := range []*world.Site{north, south} {
		w.expectField(s, world.Deployments, "web", "web", "2", "status", "readyReplicas")
	}
	w.kubectl("-n", "web", "scale", "deployment/web", "--replicas=3")
	w.rolledOut("3", north, south)
	env.Kubectl(t, w.Root, "label", "location", "north", "runs-web-")
	w.gone(north)
	w.Invariants()
	if _, err := north.Get(t, world.Namespaces, "", "implied"); err != nil {
		t.Errorf("the implied namespace did not stay: %v", err)
	}

	w.faults(south)

	// Unassigned, then deleted.
	w.kubectl("-n", "web", "label", "deployment", "web", "app-")
	w.Eventually("the unassigned Deployment leaves", func() error { return isGone(south.Get(t, world.Deployments, "web", "web")) })
	w.Invariants()
	w.kubectl("delete", "placement", "web")
	w.gone(south)
	w.Invariants()

	w.together()
}

// tamper changes, strips and deletes objects at a site behind Orrery's back.
func (w *shop) tamper(s *world.Site) {
	w.t.Helper()
	t, client := w.t, s.Client
	patch := func(body string) {
		t.Helper()
		if _, err := client.Resource(world.Deployments).Namespace("web").Patch(t.Context(), "web", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "tamperer"}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"spec":{"replicas":7}}`)
	w.expectField(s, world.Deployments, "web", "web", "3", "spec", "replicas")
	patch(`{"metadata":{"labels":{"orrery.dev/location":null},"annotations":{"orrery.dev/source-name":null}}}`)
	w.expectField(s, world.Deployments, "web", "web", "web", "metadata", "annotations", "orrery.dev/source-name")
	before, err := s.Get(t, world.ConfigMaps, "implied", "settings")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Resource(world.ConfigMaps).Namespace("implied").Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("a deleted object is made again", func() error {
		after, err := s.Get(t, world.ConfigMaps, "implied", "settings")
		if err == nil && after.GetUID() == before.GetUID() {
			err = fmt.Errorf("still the old one")
		}
		return err
	})
	w.Invariants()
}

// faults kills hub and agent in between.
func (w *shop) faults(s *world.Site) {
	w.t.Helper()
	w.Hub.Kill()
	if err := s.Client.Resource(world.ConfigMaps).Namespace("implied").Delete(w.t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.expectField(s, world.ConfigMaps, "implied", "settings", "bye", "data", "farewell") // repaired with the hub away
	s.Agent.Kill()
	s.Agent.Start() // from its disk
	w.Hub.Start()
	w.kubectl("-n", "implied", "patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"farewell":"see you"}}`)
	w.expectField(s, world.ConfigMaps, "implied", "settings", "see you", "data", "farewell")
	s.Agent.Kill()
	w.kubectl("-n", "implied", "delete", "configmap", "settings")
	w.kubectl("-n", "web", "scale", "deployment/web", "--replicas=1")
	s.Agent.Start()
	w.expectField(s, world.Deployments, "web", "web", "1", "spec", "replicas")
	w.Eventually("what was deleted while the agent was away leaves", func() error { return isGone(s.Get(w.t, world.ConfigMaps, "implied", "settings")) })
	w.Invariants()
}

// gone waits until nothing of the application is at a site.
func (w *shop) gone(s *world.Site) {
	w.t.Helper()
	w.Eventually(s.Name+" is rid of the application", func() error {
		for _, err := range []error{
			isGone(s.Get(w.t, world.Deployments, "web", "web")),
			isGone(s.Get(w.t, world.ConfigMaps, "implied", "settings")),
			isGone(s.Get(w.t, world.CRDs, "", "widgets.example.org")),
			isGone(s.Get(w.t, world.Namespaces, "", "web")),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func isGone(_ *unstructured.Unstructured, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("still there")
}

// fleet is what a provider exports, sliced by class, and bound is what has a space use it.
const (
	fleet = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.fleet.example.org}
spec:
  group: fleet.example.org
  scope: Namespaced
  names: {plural: clusters, singular: cluster, kind: Cluster, listKind: ClusterList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {class: {type: string}}}}}
---
apiVersion: orrery.dev/v1alpha1
kind: APIExport
metadata: {name: fleet}
spec:
  resources: [{group: fleet.example.org, resource: clusters}]
  claims: [{group: "", resource: configmaps, verbs: [get, list, watch]}]
---
apiVersion: orrery.dev/v1alpha1
kind: APIExportView
metadata: {name: classes}
spec: {export: fleet, split: {field: .spec.class}}
`
	bound = `
apiVersion: orrery.dev/v1alpha1
kind: APIBinding
metadata: {name: fleet}
spec:
  export: {space: provider, name: fleet}
  claims: [{group: "", resource: configmaps, state: Accepted}]
`
	fleetCluster = `
apiVersion: fleet.example.org/v1
kind: Cluster
metadata: {name: one, namespace: default}
spec: {class: gold}
`
)

// bindsFleet has the space use what another exports, until both say so.
func (w *shop) bindsFleet() {
	w.t.Helper()
	provider := w.AddSpace("provider")
	env.KubectlIn(w.t, provider, fleet, "apply", "--server-side", "-f", "-")
	w.apply(bound)
	w.kubectl("wait", "--for=condition=Ready", "apibinding/fleet", "--timeout="+world.Soon.String())
	w.apply(fleetCluster)
	env.Kubectl(w.t, provider, "wait", "--for=jsonpath={.status.bindings}=1", "apiexport/fleet", "--timeout="+world.Soon.String())
	env.Kubectl(w.t, provider, "wait", "--for=jsonpath={.status.endpoints[0].objects}=1", "apiexportview/classes", "--timeout="+world.Soon.String())
}

// TestQuiet shows that no component writes anything while nothing changes, neither for placed objects
// nor for exports and bindings.
func TestQuiet(t *testing.T) {
	t.Parallel()
	w := newShop(t, "north")
	north := w.Sites["north"]
	w.kubectl("create", "namespace", "implied")
	w.apply(app)
	w.apply(everywhere)
	env.Kubectl(t, w.Root, "label", "location", "north", "runs-web=yes")
	w.expectField(north, world.Deployments, "web", "web", "2", "status", "readyReplicas")
	w.expectCounts("web", "all applied", func(p placementStatus) bool { return p.Assigned == 4 && p.Applied == 4 })
	w.bindsFleet()

	_, since := w.quietRevision(stillness + time.Minute)
	requests := north.Cluster.AllRequests(t, env.Filter{User: env.AgentUser, After: since.Add(stillness)})
	if len(requests) > 0 {
		t.Errorf("the agent made %d requests in a quiet minute, the first: %+v", len(requests), requests[0])
	}
}
