package faults

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	month = 30 * day
	year  = 365 * day
)

var events = schema.GroupVersionResource{Version: "v1", Resource: "events"}

// TestHubClock moves the wall clock of a hub that was set up a month ago, by a day
// and by a year, while edits go on and over restarts: the hub does not depend on it. Only
// the operator's certificate expires, and a restart makes a new one.
func TestHubClock(t *testing.T) {
	t.Parallel()
	hub := env.StartHub(t, "--disconnected-after", "1h") // restarts may take long on a busy machine
	hub.Kill()
	if err := os.RemoveAll(hub.Dir); err != nil { // what it made has the wrong date
		t.Fatal(err)
	}
	hub.OwnClock()
	hub.MoveClock(-month)
	hub.Start()
	hub.MoveClock(0)
	w := world.ForHub(t, hub)
	e := edgeOf(t, w, env.StartLink(t, hub.URL))
	e.put("kept", "1")
	e.waitFor("kept", "1")
	e.connected(metav1.ConditionTrue)
	e.noteEvent()
	for _, subtest := range []struct {
		name string
		run  func(*edge)
	}{{"jumps", (*edge).hubJumps}, {"year", (*edge).hubYear}, {"behind", (*edge).hubBehind}} {
		t.Run(subtest.name, func(t *testing.T) {
			subtest.run(&edge{World: e.World, Site: e.Site, t: t, space: e.inSpace()})
		})
	}
	e.Invariants()
}

// hubJumps: sessions, watches and edits go on over a jump, also those of an agent
// that was away during it.
func (e *edge) hubJumps() {
	since, revision, sessions := e.connectedSince(), e.revision(), e.sessions()
	for i, ahead := range []time.Duration{day, -day, 0} {
		e.Hub.MoveClock(ahead)
		e.works(fmt.Sprint("jump-", i))
	}
	if n := e.sessions() - sessions; n != 0 {
		e.t.Errorf("there were %d other sessions", n)
	}
	for _, ahead := range []time.Duration{day, 0} {
		e.Link.Cut()
		e.Hub.MoveClock(ahead)
		env.Throughout(e.t, observation, func() error { return e.stillConnected(since) })
		e.Link.Heal()
		e.works("away")
	}
	e.sane(since, revision)
}

// hubYear: the server's certificate is made anew, and agents believe it although it
// is next year's; the operator's has ended, until the hub starts again.
func (e *edge) hubYear() {
	since, revision := e.connectedSince(), e.revision()
	e.Hub.MoveClock(year)
	sessions := e.sessions()
	e.Link.Cut()
	e.Link.Heal()
	env.Eventually(e.t, soon, func() error {
		if e.sessions() == sessions {
			return errors.New("the agent has no new session")
		}
		return nil
	})
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven })

	old := e.Hub.PathConfig("spaces/root")
	e.Hub.Restart()
	if _, err := world.Dynamic(e.t, old).Resource(world.Locations).List(e.t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		e.t.Errorf("the hub accepted an expired certificate: %v", err)
	}
	e.space = e.inSpace()
	e.works("new-certificate")
	e.sane(since, revision)

	// Back in time what it issued is valid, too, also for a client that it has not
	// seen before.
	e.Hub.MoveClock(0)
	e.works("this-year")
	e.Hub.Restart()
	e.space = e.inSpace()
	e.works("right-again")
	e.sane(since, revision)
}

// hubBehind: a hub that starts with a clock a day behind.
func (e *edge) hubBehind() {
	since, revision := e.connectedSince(), e.revision()
	e.Hub.Kill()
	e.Hub.MoveClock(-day)
	e.Hub.Start()
	e.space = e.inSpace()
	e.works("behind")
	e.sane(since, revision)
	e.Hub.MoveClock(0)
	e.works("right")
	e.sane(since, revision)
}

// works shows that an object is created at the target, stays as it is, and is deleted
// there.
func (e *edge) works(name string) {
	e.t.Helper()
	e.put(name, "1")
	e.waitFor(name, "1")
	e.tamper(name)
	e.waitFor(name, "1")
	e.put(name, "2")
	e.waitFor(name, "2")
	e.drop(name)
	e.gone(name)
}

// sane checks that no location was declared lost, that revisions only grow, and that an
// Event, which expires after a time, is still there.
func (e *edge) sane(since, revision string) {
	e.t.Helper()
	if err := e.stillConnected(since); err != nil {
		e.t.Error(err)
	}
	before, err := strconv.ParseInt(revision, 10, 64)
	now, err2 := strconv.ParseInt(e.revision(), 10, 64)
	if err := errors.Join(err, err2); err != nil || now <= before {
		e.t.Errorf("revision %d after %d: %v", now, before, err)
	}
	if _, err := e.space.Resource(events).Namespace(namespace).Get(e.t.Context(), "noted", metav1.GetOptions{}); err != nil {
		e.t.Errorf("the event: %v", err)
	}
	if err := e.checkTarget("kept", "1"); err != nil {
		e.t.Error(err)
	}
}

func (e *edge) noteEvent() {
	e.t.Helper()
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "noted", "namespace": namespace},
		"involvedObject": map[string]any{"kind": "ConfigMap", "name": "kept", "namespace": namespace}, "reason": "Noted",
	}}
	if _, err := e.space.Resource(events).Namespace(namespace).Create(e.t.Context(), event, metav1.CreateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// inSpace is a client of the space with the operator's certificate of now.
func (e *edge) inSpace() dynamic.Interface {
	e.t.Helper()
	return world.Dynamic(e.t, e.Hub.PathConfig("spaces/"+spaceName))
}

// revision is that of the space.
func (e *edge) revision() string {
	e.t.Helper()
	list, err := e.source().List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return list.GetResourceVersion()
}

func (e *edge) sessions() int { return strings.Count(e.Agent.Stderr(), "connected to the hub") }

// connectedSince returns the time of the last transition of the condition Connected to True.
func (e *edge) connectedSince() string {
	e.t.Helper()
	since, err := e.conditionSince()
	if err != nil {
		e.t.Fatal(err)
	}
	return since
}

func (e *edge) stillConnected(since string) error {
	now, err := e.conditionSince()
	if err == nil && now != since {
		err = fmt.Errorf("the location is connected since %s, was since %s", now, since)
	}
	return err
}

func (e *edge) conditionSince() (string, error) {
	u, err := world.Dynamic(e.t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations).Get(e.t.Context(), e.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == v1alpha1.ConditionConnected && c["status"] == "True" {
			return fmt.Sprint(c["lastTransitionTime"]), nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("it is not connected: %v", conditions))
}
