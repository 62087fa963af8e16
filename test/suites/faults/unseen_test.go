package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// gizmos are a custom kind whose statuses have no observedGeneration.
var gizmos = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gizmos"}

// observed are objects at a location, and the statuses with which controllers there call them done:
// with an observedGeneration, without one, and of a kind without conditions.
var observed = []struct {
	resource             schema.GroupVersionResource
	name, source, status string
}{
	{
		world.Deployments, "web", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {for: edge}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.org/web:1}]}`,
		`{"status":{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,
		"conditions":[{"type":"Available","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"}]}}`,
	},
	{
		gizmos, "lamp", `
apiVersion: example.org/v1
kind: Gizmo
metadata: {name: lamp, namespace: default, labels: {for: edge}}
spec: {size: 1}`,
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
	},
	{
		gizmos, "plain", `
apiVersion: example.org/v1
kind: Gizmo
metadata: {name: plain, namespace: default, labels: {for: edge}}
spec: {size: 1}`,
		`{"status":{"n":1}}`,
	},
}

const gizmoCRD = `
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
`

// TestUnseen takes a location's cluster out of sight in each way there is, and has it keep an earlier
// version. No place that shows state calls that done, and all do again when the location is as desired.
func TestUnseen(t *testing.T) {
	t.Parallel()
	w := world.New(t, "--heartbeat", heartbeat.String(), "--disconnected-after=10s") // an agent that ends is missed soon
	e := edgeOf(t, w, env.StartLink(t, w.Hub.URL))
	front := startFront(t, e.Cluster)
	e.Agent.Kill()
	e.Agent.Start("--kubeconfig", front.kubeconfig)
	u := &unseen{edge: e, kubeconfig: w.Hub.PathKubeconfig("spaces/" + spaceName), reports: w.Hub.PathKubeconfig("views/reports/spaces/" + spaceName + "/locations/edge")}
	u.place()
	u.shows("before", true)
	for _, fault := range u.faults(front) {
		fault.begin()
		u.shows(fault.name, false)
		fault.heal()
		u.shows("after "+fault.name, true)
	}
	for i, delay := range u.delays(front) {
		delay.begin()
		u.edit(2 + 2*i)
		u.shows(delay.name, false, "column Fresh", "metrics") // which are about observation
		delay.heal()
		u.edit(3 + 2*i) // a refused object is tried again at once when it changes
		u.finish(3 + 2*i)
		u.shows("after "+delay.name, true)
	}
}

// outOfSight is a way in which a cluster can't be seen.
type outOfSight struct {
	name        string
	begin, heal func()
}

// faults are those of make test; moreFaults has those of make soak besides.
func (u *unseen) faults(front *front) []outOfSight {
	return append([]outOfSight{
		{"api-server-down", u.Cluster.KillAPIServer, u.Cluster.StartAPIServer},
		{"credential-ended", func() { front.fail(refuse(http.StatusUnauthorized, "Unauthorized", "Unauthorized", 0), nil) }, front.heal},
		{"agent-stopped", func() { u.Agent.Kill() }, func() { u.Agent.Start("--kubeconfig", front.kubeconfig) }},
	}, u.moreFaults()...)
}

// delays are ways in which a location that can be observed keeps an earlier version.
func (u *unseen) delays(front *front) []outOfSight {
	isOurs := func(r *http.Request) bool {
		return r.Method == http.MethodPatch && (strings.Contains(r.URL.Path, "/deployments/") || strings.Contains(r.URL.Path, "/gizmos/"))
	}
	return []outOfSight{
		{"refused", func() {
			front.fail(refuse(http.StatusUnprocessableEntity, "Invalid", "a policy refuses it", 0), isOurs)
		}, front.heal},
		{"paused", func() {
			env.Orrery(u.t, u.Root, "location", "pause", "edge")
			u.waitForStatus(func(s agent.Status) bool { return s.Halt != "" })
		}, func() { env.Orrery(u.t, u.Root, "location", "resume", "edge") }},
	}
}

// edit changes all objects in the space.
func (u *unseen) edit(version int) {
	u.t.Helper()
	env.Kubectl(u.t, u.kubeconfig, "set", "image", "deployment/web", fmt.Sprintf("web=example.org/web:%d", version))
	for _, name := range []string{"lamp", "plain"} {
		env.Kubectl(u.t, u.kubeconfig, "patch", "gizmo", name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"size":%d}}`, version))
	}
}

// finish waits until the cluster has a version of web, and has its controllers call it done.
func (u *unseen) finish(version int) {
	u.t.Helper()
	target := u.Client.Resource(world.Deployments).Namespace(namespace)
	u.Eventually(fmt.Sprintf("version %d of web is done", version), func() error {
		web, err := target.Get(u.t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if spec := fmt.Sprint(web.Object["spec"]); !strings.Contains(spec, fmt.Sprintf("web:%d", version)) {
			return errors.New(spec)
		}
		status := strings.Replace(observed[0].status, `"observedGeneration":1`, fmt.Sprintf(`"observedGeneration":%d`, web.GetGeneration()), 1)
		_, err = target.Patch(u.t.Context(), "web", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		return err
	})
}

// unseen is a location with objects that its cluster calls done.
type unseen struct {
	*edge
	// kubeconfig is that of the space, reports that of the view of the location's reports.
	kubeconfig, reports string
}

// webSummary counts the reports of web by state.
const webSummary = `
apiVersion: orrery.dev/v1alpha1
kind: Summary
metadata: {name: web}
spec:
  match: [{apiGroup: apps, resources: [deployments], names: [web]}]
  groupBy: [{name: state, expression: sync.state}]
  combine: [{name: objects, type: COUNT}]
`

// place puts the objects in the space, and has the cluster call them done.
func (u *unseen) place() {
	u.t.Helper()
	env.KubectlIn(u.t, u.kubeconfig, gizmoCRD, "apply", "-f", "-")
	env.KubectlIn(u.t, u.kubeconfig, webSummary, "apply", "-f", "-")
	u.Eventually("the kind is served", func() error {
		_, err := env.TryKubectl(u.t, u.kubeconfig, "get", "gizmos")
		return err
	})
	for _, o := range observed {
		env.KubectlIn(u.t, u.kubeconfig, o.source, "apply", "-f", "-")
	}
	for _, o := range observed {
		target := u.Client.Resource(o.resource).Namespace(namespace)
		u.Eventually(o.name+" is done", func() error {
			_, err := target.Patch(u.t.Context(), o.name, types.MergePatchType, []byte(o.status), metav1.PatchOptions{}, "status")
			return err
		})
	}
}

// shows waits until each place that shows state, without some, reports that all is done, or that it is not.
func (u *unseen) shows(when string, done bool, without ...string) {
	u.t.Helper()
	for name, isDone := range map[string]func() (bool, string){
		"orrery status":        u.status,
		"orrery status --wait": u.wait,
		"orrery top":           u.top,
		"orrery why":           u.why,
		"Summary":              u.summary,
		"Synced of Location":   func() (bool, string) { return u.synced("root", "location", "edge") },
		"Synced of Placement":  func() (bool, string) { return u.synced("", "placement", "edge") },
		"column Fresh":         u.fresh,
		"metrics":              u.metrics,
		"rollout status": func() (bool, string) {
			return u.succeeds("kubectl", "rollout", "status", "deployment/web", "--timeout=1s")
		},
		"wait for Available": func() (bool, string) {
			return u.succeeds("kubectl", "wait", "deployment/web", "--for=condition=Available", "--timeout=1s")
		},
		"wait for Ready": func() (bool, string) {
			return u.succeeds("kubectl", "wait", "gizmo/lamp", "--for=condition=Ready", "--timeout=1s")
		},
		"Reconciling of web":   func() (bool, string) { return u.unreconciled("deployment/web") },
		"Reconciling of lamp":  func() (bool, string) { return u.unreconciled("gizmo/lamp") },
		"Reconciling of plain": func() (bool, string) { return u.unreconciled("gizmo/plain") },
	} {
		if slices.Contains(without, name) {
			continue
		}
		u.Eventually(fmt.Sprintf("%s: %s reports that all is done: %t", when, name, done), func() error {
			if is, output := isDone(); is != done {
				return errors.New(output)
			}
			return nil
		})
	}
}

func (u *unseen) succeeds(binary string, args ...string) (bool, string) {
	out, err := env.Command{Binary: binary, Kubeconfig: u.kubeconfig, Args: args}.Try(u.t)
	return err == nil, fmt.Sprint(out, err)
}

func (u *unseen) status() (bool, string) {
	ok, output := u.succeeds("orrery", "status")
	contains := func(word string) bool { return strings.Contains(output, word) }
	return ok && contains("web") && !slices.ContainsFunc([]string{"(stale)", "Failed", "Waiting", "Pending"}, contains), output
}

// why reports whether orrery why calls web applied, and its report not stale.
func (u *unseen) why() (bool, string) {
	ok, output := u.succeeds("orrery", "why", "deployment/web", "-n", namespace, "--location", "edge")
	return ok && strings.Contains(output, "reported by edge: Applied") && !strings.Contains(output, "(stale"), output
}

// summary reports whether a Summary counts web as applied, by a report that is not stale.
func (u *unseen) summary() (bool, string) {
	output := env.Kubectl(u.t, u.kubeconfig, "get", "summary", "web", "-o", "jsonpath={.status.rows} {.status.stale}.")
	return output == `[["Applied",1]] .` || output == `[["Applied",1]] 0.`, output
}

func (u *unseen) wait() (bool, string) {
	return u.succeeds("orrery", "status", "--wait", "--for", "healthy", "--timeout", "1s")
}

func (u *unseen) top() (bool, string) {
	out := env.Orrery(u.t, u.Root, "top", "-o", "json")
	var fleet struct {
		Wrong int `json:"wrong"`
	}
	err := json.Unmarshal([]byte(out), &fleet)
	return err == nil && fleet.Wrong == 0, fmt.Sprint(out, err)
}

// synced reports whether the condition Synced of an object of a space is True.
func (u *unseen) synced(space, kind, name string) (bool, string) {
	kubeconfig := u.kubeconfig
	if space != "" {
		kubeconfig = u.Root
	}
	output := env.Kubectl(u.t, kubeconfig, "get", kind, name, "-o", `jsonpath={.status.conditions[?(@.type=="Synced")]}`)
	return strings.Contains(output, `"status":"True"`), output
}

// unreconciled reports whether an object has no condition Reconciling.
func (u *unseen) unreconciled(name string) (bool, string) {
	output := env.Kubectl(u.t, u.kubeconfig, "get", name, "-o", "jsonpath={.status}")
	return output != "" && !strings.Contains(output, `"Reconciling"`), output
}

func (u *unseen) fresh() (bool, string) {
	output := env.Kubectl(u.t, u.reports, "get", "deployments", "-A")
	return strings.Contains(output, "Live"), output
}

func (u *unseen) metrics() (bool, string) {
	output, err := env.TryKubectl(u.t, u.Root, "--server="+u.Hub.URL, "get", "--raw", "/metrics")
	return err == nil && strings.Contains(output, `orrery_placed_objects{state="stale"} 0`), fmt.Sprintf("%d bytes, %v", len(output), err)
}
