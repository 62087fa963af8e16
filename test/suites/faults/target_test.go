package faults

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestTarget breaks the API server of a location in many ways: the agent deletes nothing meanwhile,
// and recovers afterwards.
func TestTarget(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	front := startFront(t, e.Cluster)
	e.Agent.Kill()
	e.Agent.Start("--kubeconfig", front.kubeconfig)
	notFound := func(message string) http.HandlerFunc { return refuse(http.StatusNotFound, "NotFound", message, 0) }
	for _, fault := range []struct {
		name   string
		answer http.HandlerFunc
		// only selects the requests that fail; nil selects all.
		only func(*http.Request) bool
		// passes: edits and deletions may reach the cluster during the fault.
		passes bool
	}{
		{"unauthorized", refuse(http.StatusUnauthorized, "Unauthorized", "Unauthorized", 0), nil, false},
		{"forbidden", refuse(http.StatusForbidden, "Forbidden", "forbidden", 0), nil, false},
		{"unavailable", refuse(http.StatusServiceUnavailable, "ServiceUnavailable", "no", 1), nil, false},
		{"throttled", refuse(http.StatusTooManyRequests, "TooManyRequests", "later", 1), nil, false},
		{"throttled-writes", refuse(http.StatusTooManyRequests, "TooManyRequests", "later", 1), writes, false},
		{"nothing-served", notFound("the server could not find the requested resource"), nil, false},
		{"kind-not-served", notFound("the server could not find the requested resource"), configMaps, false},
		{"no-discovery", notFound("the server could not find the requested resource"), discovery, true},
		{"empty-discovery", answer(`{"kind":"APIGroupList","apiVersion":"v1","groups":[],"versions":[]}`), discovery, true},
		{"page", answer("<html>please log in</html>"), nil, false},
		{"empty-lists", answer(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`), lists, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			e := &edge{World: e.World, Site: e.Site, t: t, space: e.space}
			e.throughTarget(fault.name, fault.passes,
				func() { front.fail(fault.answer, fault.only) }, front.heal)
		})
	}
	t.Run("hung", func(t *testing.T) {
		e := &edge{World: e.World, Site: e.Site, t: t, space: e.space}
		e.throughTarget("hung", false,
			func() { e.Cluster.APIServer.Signal(syscall.SIGSTOP) },
			func() { e.Cluster.APIServer.Signal(syscall.SIGCONT) })
	})
	t.Run("killed", func(t *testing.T) {
		e := &edge{World: e.World, Site: e.Site, t: t, space: e.space}
		e.throughTarget("killed", false, e.Cluster.KillAPIServer, e.Cluster.StartAPIServer)
	})
	e.Invariants()
}

func writes(r *http.Request) bool { return r.Method != http.MethodGet }

func discovery(r *http.Request) bool {
	return len(strings.Split(strings.Trim(r.URL.Path, "/"), "/")) <= 3 && !lists(r)
}

func configMaps(r *http.Request) bool { return strings.Contains(r.URL.Path, "/configmaps") }

func lists(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("labelSelector") != "" && r.URL.Query().Get("watch") == ""
}

// throughTarget edits some objects during a fault of the target and after it.
func (e *edge) throughTarget(name string, passes bool, begin, end func()) {
	kept, edited, dropped, made := name+"-kept", name+"-edited", name+"-dropped", name+"-made"
	for _, n := range []string{kept, edited, dropped} {
		e.put(n, "1")
	}
	for _, n := range []string{kept, edited, dropped} {
		e.waitFor(n, "1")
	}
	e.waitForStatus(func(s agent.Status) bool { return s.Halt == "" && s.Queued == 0 })
	keptUID, editedUID := e.uid(kept), e.uid(edited)
	start := time.Now()
	begin()
	e.put(edited, "2")
	e.put(made, "1")
	if !passes {
		e.drop(dropped)
	}
	env.Throughout(e.t, observation, func() error {
		if !e.Agent.Running() {
			return errors.New("the agent ended")
		}
		return nil
	})
	if n := e.done(start); n > 0 {
		e.t.Errorf("%d deletions went through", n)
	}
	end()
	if passes {
		e.drop(dropped)
	}
	e.waitFor(edited, "2")
	e.waitFor(made, "1")
	e.gone(dropped)
	e.tamper(kept)
	e.waitFor(kept, "1")
	if e.uid(kept) != keptUID || e.uid(edited) != editedUID {
		e.t.Error("an object was replaced")
	}
	env.Eventually(e.t, soon, func() error { // the API server logs a request after it has answered
		if n := e.done(start); n != 1 {
			return fmt.Errorf("%d deletions for one deleted object", n)
		}
		return nil
	})
}

// done counts the deletions by the agent that the API server granted since a time.
func (e *edge) done(since time.Time) (n int) {
	for _, r := range e.Cluster.Requests(e.t, env.Filter{User: env.AgentUser, Verbs: []string{"delete", "deletecollection"}, After: since}) {
		if r.Response.Code < http.StatusMultipleChoices {
			n++
		}
	}
	return n
}

// TestBrokenAPIService removes a Namespace while an aggregated API of the target
// does not answer: whether something is inside cannot be known, so it stays until
// it can.
func TestBrokenAPIService(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	namespaces := e.space.Resource(world.Namespaces)
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "team", "labels": map[string]any{"for": "edge"}},
	}}
	if _, err := namespaces.Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	there := func() (*unstructured.Unstructured, error) { return e.Get(t, world.Namespaces, "", "team") }
	env.Eventually(t, soon, func() error { _, err := there(); return err })

	apiServices := e.Client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	broken := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.broken.example.org"},
		"spec": map[string]any{
			"group": "broken.example.org", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "nobody"},
		},
	}}
	if _, err := apiServices.Create(t.Context(), broken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, func() error {
		err := e.Cluster.Client.Discovery().RESTClient().Get().AbsPath("/apis/broken.example.org/v1").Do(t.Context()).Error()
		if !apierrors.IsServiceUnavailable(err) {
			return fmt.Errorf("the broken API answers: %w", err)
		}
		return nil
	})
	if err := namespaces.Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.put("other", "1")
	e.waitFor("other", "1") // one object does not block another
	env.Throughout(t, observation, func() error {
		u, err := there()
		if err == nil && u.GetDeletionTimestamp() != nil {
			err = errors.New("the Namespace is being deleted")
		}
		return err
	})
	e.put("other", "2")
	e.waitFor("other", "2")
	if err := apiServices.Delete(t.Context(), "v1.broken.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, func() error {
		u, err := there()
		if err == nil && u.GetDeletionTimestamp() == nil {
			err = errors.New("the Namespace is not being deleted")
		}
		return err
	})
}
