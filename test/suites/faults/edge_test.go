package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	// soon bounds how long it may take on a busy machine until what was broken works
	// again: an agent waits up to a minute before it tries again to reach a hub that was
	// away.
	soon = env.Soon
	// heartbeat is that of the hubs here, so that silence is noticed within seconds.
	heartbeat = time.Second
	// observation is for how long a test checks that something does not happen.
	observation = 2 * time.Second

	spaceName = "shop"
	namespace = "default"
)

// edge is one location at the end of a link, with a cluster that is only an API
// server, and one space, from which all ConfigMaps labelled for: edge are placed
// there.
type edge struct {
	*world.World
	*world.Site
	t     *testing.T
	space dynamic.Interface
}

func newEdge(t *testing.T) *edge {
	t.Helper()
	w := world.New(t, "--heartbeat", heartbeat.String())
	return edgeOf(t, w, env.StartLink(t, w.Hub.URL))
}

// edgeOf is the edge of a world that has no location yet; options are for its
// cluster.
func edgeOf(t *testing.T, w *world.World, link *env.Link, options ...env.ClusterOption) *edge {
	t.Helper()
	e := &edge{World: w, t: t}
	e.AddSpace(spaceName)
	e.space = world.Dynamic(t, w.Hub.PathConfig("spaces/"+spaceName))
	e.Site = e.Join("edge", link, append(options, env.APIOnly())...)
	e.place("edge", metav1.LabelSelector{MatchLabels: map[string]string{"site": "edge"}})
	return e
}

// place makes a Placement of all that is labelled for: NAME.
func (e *edge) place(name string, locations metav1.LabelSelector) {
	e.t.Helper()
	if err := place(e.t, e.space, name, locations); err != nil {
		e.t.Fatal(err)
	}
}

func place(t *testing.T, space dynamic.Interface, name string, locations metav1.LabelSelector) error {
	t.Helper()
	labels := map[string]any{}
	for k, v := range locations.MatchLabels {
		labels[k] = v
	}
	p := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "orrery.dev/v1alpha1", "kind": "Placement", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": labels}}},
			"downsync": []any{map[string]any{
				"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"for": name}}},
				"returnStatus":   "Singleton",
			}},
		},
	}}
	_, err := space.Resource(world.Placements).Create(t.Context(), p, metav1.CreateOptions{})
	return err
}

func (e *edge) source() dynamic.ResourceInterface {
	return e.space.Resource(world.ConfigMaps).Namespace(namespace)
}

func (e *edge) target() dynamic.ResourceInterface {
	return e.Client.Resource(world.ConfigMaps).Namespace(namespace)
}

func configMap(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"for": "edge"}},
		"data":     map[string]any{"v": value},
	}}
}

// put makes or changes a ConfigMap in the space.
func (e *edge) put(name, value string) {
	e.t.Helper()
	if _, err := e.source().Apply(e.t.Context(), name, configMap(name, value), metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		e.t.Fatalf("put %q: %v", name, err)
	}
}

// drop deletes a ConfigMap in the space.
func (e *edge) drop(name string) {
	e.t.Helper()
	if err := e.source().Delete(e.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatalf("drop %q: %v", name, err)
	}
}

// tamper changes a ConfigMap directly in the target cluster.
func (e *edge) tamper(name string) {
	e.t.Helper()
	if _, err := e.target().Patch(e.t.Context(), name, types.MergePatchType, []byte(`{"data":{"v":"tampered"}}`), metav1.PatchOptions{}); err != nil {
		e.t.Fatalf("tamper with %q: %v", name, err)
	}
}

// steal deletes a ConfigMap directly in the target cluster.
func (e *edge) steal(name string) {
	e.t.Helper()
	if err := e.target().Delete(e.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatalf("steal %q: %v", name, err)
	}
}

// checkTarget returns an error unless a ConfigMap in the target cluster has the value.
func (e *edge) checkTarget(name, value string) error {
	u, err := e.target().Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if data := fmt.Sprint(u.Object["data"]); data != "map[v:"+value+"]" {
		return fmt.Errorf("%s has %s, want %q", name, data, value)
	}
	return nil
}

// waitFor waits until a ConfigMap in the target cluster has the value.
func (e *edge) waitFor(name, value string) {
	e.t.Helper()
	env.Eventually(e.t, soon, func() error { return e.checkTarget(name, value) })
}

// staysAs checks that a ConfigMap in the target cluster keeps its value for a while.
func (e *edge) staysAs(name, value string) {
	e.t.Helper()
	env.Throughout(e.t, observation, func() error { return e.checkTarget(name, value) })
}

// gone waits until a ConfigMap does not exist in the target cluster.
func (e *edge) gone(name string) {
	e.t.Helper()
	env.Eventually(e.t, soon, func() error {
		_, err := e.target().Get(e.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s is still there", name)
		}
		return err
	})
}

// waitForStatus waits until ok accepts the status that the agent has written.
func (e *edge) waitForStatus(ok func(agent.Status) bool) {
	e.t.Helper()
	env.Eventually(e.t, soon, func() error {
		s, err := agent.ReadStatus(e.Agent.Dir)
		if err == nil && !ok(s) {
			err = fmt.Errorf("the status of the agent is %+v", s)
		}
		return err
	})
}

// connected waits until the condition Connected of the location has a status.
func (e *edge) connected(want metav1.ConditionStatus) {
	e.t.Helper()
	locations := world.Dynamic(e.t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations)
	env.Eventually(e.t, soon, func() error {
		u, err := locations.Get(e.t.Context(), e.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is := connectedOf(u); is != want {
			return fmt.Errorf("the hub says that it is connected: %q", is)
		}
		return nil
	})
}

// connectedOf is the status of a location's condition Connected; empty: it has none.
func connectedOf(location *unstructured.Unstructured) metav1.ConditionStatus {
	conditions, _, _ := unstructured.NestedSlice(location.Object, "status", "conditions") // of another type there are none
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == v1alpha1.ConditionConnected {
			return metav1.ConditionStatus(fmt.Sprint(c["status"]))
		}
	}
	return ""
}

// deletions counts the objects that the agent asked the target to delete since a time. A request that was refused,
// or came to no answer, is repeated, and does not count again.
func (e *edge) deletions(since time.Time) int {
	e.t.Helper()
	paths := map[string]bool{}
	for _, r := range e.Cluster.AllRequests(e.t, env.Filter{User: env.AgentUser, Verbs: []string{"delete", "deletecollection"}, After: since}) {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		paths[path] = true
	}
	return len(paths)
}

// deleted waits until the agent has asked the target for so many deletions since a
// time, and for no more. It waits since a request is in the audit log only when it
// has been answered, a moment after the object is gone.
func (e *edge) deleted(since time.Time, want int) {
	e.t.Helper()
	env.Eventually(e.t, soon, func() error {
		n := e.deletions(since)
		if n > want {
			e.t.Fatalf("%d deletions, want %d", n, want)
		}
		if n < want {
			return fmt.Errorf("%d deletions, want %d", n, want)
		}
		return nil
	})
}

// uid is that of a ConfigMap at the target.
func (e *edge) uid(name string) types.UID {
	e.t.Helper()
	u, err := e.target().Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return u.GetUID()
}

// version identifies the state of an object at the target.
type version struct {
	uid     types.UID
	version string
}

// versions are those of all ConfigMaps at the target that are Orrery's.
func (e *edge) versions() map[string]version {
	e.t.Helper()
	list, err := e.target().List(e.t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LocationLabel})
	if err != nil {
		e.t.Fatal(err)
	}
	all := map[string]version{}
	for _, u := range list.Items {
		all[u.GetName()] = version{u.GetUID(), u.GetResourceVersion()}
	}
	return all
}
