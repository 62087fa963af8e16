package faults

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/agent/manifest"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/ports"
	"orrery.dev/orrery/test/support/world"
)

// TestSupersededAgent sets up a second agent of a location with a new join token and leaves the
// first one running. The first one stops for good, and its operator sees why.
func TestSupersededAgent(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.places("kept", "dropped")

	rival := env.StartAgent(t, "rival", e.Token("edge"), e.Cluster.AgentKubeconfig)
	superseded := func(s agent.Status) bool { return strings.Contains(s.Halt, "orrery location token") }
	e.waitForStatus(superseded)
	if log := e.Agent.Stderr(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "another agent has joined") {
		t.Error("the log of the superseded agent does not have the reason")
	}
	e.drop("dropped")
	e.gone("dropped")
	e.put("kept", "2")
	e.waitFor("kept", "2")
	before := e.versions()
	unchanged := func(what string) {
		t.Helper()
		env.Throughout(t, limit.Window, func() error {
			if now := e.versions(); fmt.Sprint(now) != fmt.Sprint(before) {
				return fmt.Errorf("%s: the cluster has %v, want %v", what, now, before)
			}
			return nil
		})
	}
	unchanged("superseded")

	// The halt survives a restart, also while the hub can't be reached.
	e.Agent.Kill()
	e.Link.Cut()
	metrics := ports.Reserve(t)
	e.Agent.Start("--metrics", metrics)
	e.waitForStatus(func(s agent.Status) bool { return s.Running && superseded(s) })
	unchanged("started again")
	for _, path := range []string{"/healthz", "/readyz"} {
		env.Eventually(t, soon, func() error {
			code, body, err := httpGet(t, "http://"+metrics+path)
			if err == nil && (path == "/readyz" && code != http.StatusServiceUnavailable || !strings.Contains(body, "another agent has joined")) {
				err = fmt.Errorf("GET %s: %d %s", path, code, body)
			}
			return err
		})
	}

	// A new join token is the way back.
	e.Link.Heal()
	rival.Stop()
	e.Agent.Stop()
	e.Agent.Start("--join", world.Through(t, e.Token("edge"), e.Link))
	e.goesOn("3")
}

// httpGet returns the answer to a GET request.
func httpGet(t *testing.T, url string) (code int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(limit.Context(t, "GET "+url), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// TestSupersededUnheard is TestSupersededAgent with a first agent that the hub can't reach: it
// finds out by what the second one writes to the cluster.
func TestSupersededUnheard(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.places("kept", "dropped")
	e.waitForStatus(func(s agent.Status) bool { return s.Unsent == 0 })
	e.Link.Cut()
	e.waitForStatus(func(s agent.Status) bool { return !s.Connected })

	env.StartAgent(t, "rival", e.Token("edge"), e.Cluster.AgentKubeconfig)
	e.put("kept", "2")
	e.waitForStatus(func(s agent.Status) bool { return strings.Contains(s.Halt, "newer") })
	e.drop("dropped")
	e.gone("dropped")
	e.waitFor("kept", "2")
	env.Throughout(t, limit.Window, func() error {
		_, err := e.target().Get(t.Context(), "dropped", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("get a deleted object: %w", errors.Join(err, errors.New("it is back")))
		}
		return e.checkTarget("kept", "2")
	})
	e.Link.Heal()
	e.waitForStatus(func(s agent.Status) bool { return strings.Contains(s.Halt, "another agent has joined") })
}

// TestOlderDirectory starts an agent on an older copy of its data directory, as after the snapshot
// of a machine or of a volume was restored. Nothing at the cluster goes back.
func TestOlderDirectory(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.places("kept", "dropped")
	e.waitForStatus(func(s agent.Status) bool { return s.Unsent == 0 && s.Connected })
	older := filepath.Join(t.TempDir(), "older")
	e.Agent.Stop()
	copyDir(t, e.Agent.Dir, older)
	rollBack := func() {
		t.Helper()
		if err := os.RemoveAll(e.Agent.Dir); err != nil {
			t.Fatal(err)
		}
		copyDir(t, older, e.Agent.Dir)
	}
	e.Agent.Start()
	e.put("kept", "2")
	e.put("made", "2")
	e.drop("dropped")
	e.waitFor("kept", "2")
	e.waitFor("made", "2")
	e.gone("dropped")
	e.waitForStatus(func(s agent.Status) bool { return s.Unsent == 0 })
	e.Agent.Stop()
	before := e.versions()
	writes := func(since time.Time) (all []string) {
		for _, r := range e.Cluster.AllRequests(t, env.Filter{User: env.AgentUser, Resource: "configmaps", Writes: true, After: since}) {
			all = append(all, r.Verb+" "+r.Object.Name)
		}
		return all
	}

	// Without the hub nothing is changed, whatever is not as the store has it.
	rollBack()
	e.Link.Cut()
	start := time.Now()
	e.Agent.Start()
	e.waitForStatus(func(s agent.Status) bool { return s.Running && strings.Contains(s.Halt, "newer") })
	env.Throughout(t, limit.Window, func() error {
		if now := e.versions(); fmt.Sprint(now) != fmt.Sprint(before) {
			return fmt.Errorf("the cluster has %v, want %v", now, before)
		}
		return nil
	})
	if all := writes(start); len(all) > 0 {
		t.Errorf("writes without a hub: %q", all)
	}
	// A session settles it, without a visit to the site.
	e.Link.Heal()
	e.goesOn("3")
	unharmed := func(what string, since time.Time) {
		t.Helper()
		for _, w := range writes(since) {
			if strings.Contains(w, "dropped") {
				t.Errorf("%s: %s", what, w)
			}
		}
		e.gone("dropped")
		if now := e.versions(); now["made"].uid != before["made"].uid || now["kept"].uid != before["kept"].uid {
			t.Errorf("%s: made anew: %v, was %v", what, now, before)
		}
	}
	unharmed("settled", start)

	// With the hub within reach, nothing goes back for a moment either.
	e.Agent.Stop()
	rollBack()
	start = time.Now()
	e.Agent.Start()
	e.goesOn("4")
	unharmed("with a hub", start)
	e.waitForStatus(func(s agent.Status) bool { return s.Halt == "" })
	e.Invariants()
}

// TestOlderDirectoryUnseen is TestOlderDirectory where no object shows what the copy lacks: an object
// was removed since. The Lease of the location shows it.
func TestOlderDirectoryUnseen(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: manifest.Namespace}}
	if _, err := e.Cluster.Client.CoreV1().Namespaces().Create(t.Context(), home, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.places("kept", "first", "dropped")
	e.waitForStatus(func(s agent.Status) bool { return s.Unsent == 0 && s.Connected })
	older := filepath.Join(t.TempDir(), "older")
	e.Agent.Stop()
	copyDir(t, e.Agent.Dir, older)
	e.Agent.Start()
	// A write of the Lease after the first removal may still be of what was before it. One after the
	// second is of what came after the copy.
	for _, name := range []string{"first", "dropped"} {
		before := e.marked()
		e.drop(name)
		e.gone(name)
		e.Eventually("the Lease names the removal of "+name, func() error {
			if now := e.marked(); now <= before {
				return fmt.Errorf("it counts %d changes, as before", now)
			}
			return nil
		})
	}
	e.waitForStatus(func(s agent.Status) bool { return s.Unsent == 0 })
	e.Agent.Stop()
	if err := os.RemoveAll(e.Agent.Dir); err != nil {
		t.Fatal(err)
	}
	copyDir(t, older, e.Agent.Dir)
	e.Link.Cut()
	e.Agent.Start()
	e.waitForStatus(func(s agent.Status) bool { return s.Running && strings.Contains(s.Halt, "Lease") })
	env.Throughout(t, limit.Window, func() error {
		if _, err := e.target().Get(t.Context(), "dropped", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get a removed object: %w", errors.Join(err, errors.New("it is back")))
		}
		return nil
	})
	e.Link.Heal()
	e.goesOn("2")
	e.gone("dropped")

	// The new store has the Lease from then on, and another start is an ordinary one.
	e.Agent.Restart()
	e.goesOn("3")
	e.waitForStatus(func(s agent.Status) bool { return s.Halt == "" })
	e.Invariants()
}

// places puts ConfigMaps with the value 1 in the space, and waits until the cluster has them.
func (e *edge) places(names ...string) {
	e.t.Helper()
	for _, name := range names {
		e.put(name, "1")
		e.waitFor(name, "1")
	}
}

// marked is how many changes of the store the Lease of the location counts; 0: there is none.
func (e *edge) marked() (changes int) {
	e.t.Helper()
	all, err := e.Cluster.Client.CoordinationV1().Leases(manifest.Namespace).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	for _, lease := range all.Items {
		if !strings.HasSuffix(lease.Name, "-store") {
			continue
		}
		if changes, err = strconv.Atoi(lease.Annotations["orrery.dev/moves"]); err != nil {
			e.t.Fatal(err)
		}
	}
	return changes
}

// TestOlderCredential starts an agent on a copy of its data directory from before its credential
// was renewed. The hub can't tell it from a thief; its operator readmits it without a visit to the
// site.
func TestOlderCredential(t *testing.T) {
	t.Parallel()
	w := world.New(t, "--heartbeat", heartbeat.String(), "--disconnected-after", slowDetection.String(),
		"--agent-certificate-lifetime", certificateLife.String())
	e := edgeOf(t, w, env.StartLink(t, w.Hub.URL))
	e.put("kept", "1")
	e.waitFor("kept", "1")
	older := filepath.Join(t.TempDir(), "older")
	e.Agent.Stop()
	copyDir(t, e.Agent.Dir, older)
	e.Agent.Start()
	for range 2 {
		e.awaitRenewal()
	}
	e.goesOn("2")
	e.Agent.Stop()
	if err := os.RemoveAll(e.Agent.Dir); err != nil {
		t.Fatal(err)
	}
	copyDir(t, older, e.Agent.Dir)
	e.Agent.Start()
	e.enrolled(metav1.ConditionFalse, v1alpha1.ReasonCredentialReused)
	message := ""
	env.Eventually(t, soon, func() error {
		u, err := world.Dynamic(t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations).Get(t.Context(), "edge", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if message = messageOf(u, v1alpha1.ConditionEnrolled); !strings.Contains(message, "orrery location readmit") {
			return fmt.Errorf("the condition says %q", message)
		}
		return nil
	})
	env.Orrery(t, e.Root, "location", "readmit", "edge")
	e.goesOn("3")
	e.enrolled(metav1.ConditionTrue, v1alpha1.ReasonJoined)
	e.awaitRenewal()
	e.goesOn("4")
}

// messageOf is the message of a condition of a location; empty: it has none.
func messageOf(location *unstructured.Unstructured, condition string) string {
	conditions, _, _ := unstructured.NestedSlice(location.Object, "status", "conditions") // of another type there are none
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == condition {
			return fmt.Sprint(c["message"])
		}
	}
	return ""
}
