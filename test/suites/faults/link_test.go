package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
)

// TestLink breaks the link between agent and hub in many ways. While it is broken the
// agent keeps the location in the last known state; when it is healed the edits that were
// made meanwhile arrive, and nothing else happens.
func TestLink(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	slow := func() { e.Link.Slow(100*time.Millisecond, 20<<10) }
	for _, f := range []fault{
		{name: "cut", begin: e.Link.Cut, deaf: true},
		{name: "cut-up", begin: e.Link.CutUp, passes: true, brief: true}, // frames still come down
		{name: "cut-down", begin: e.Link.CutDown, deaf: true},
		{name: "forgotten", begin: e.Link.Forget, passes: true},
		{name: "slow", begin: slow, passes: true},
		{name: "dropping-early", begin: func() { e.Link.DropMidFrame(100) }, deaf: true},
		{name: "dropping", begin: func() { e.Link.DropMidFrame(4000) }},
	} {
		f.end = e.Link.Heal
		t.Run(f.name, func(t *testing.T) { e.through(t, f) })
	}
	e.Invariants()
}

// fault is something between agent and hub that begins and ends.
type fault struct {
	name       string
	begin, end func()
	// passes: edits reach the agent during the fault. brief: they do until the hub misses the answers
	// of the agent to its pings. deaf: no edit reaches the agent. lost: the hub reports the location
	// as disconnected.
	passes, brief, deaf, lost bool
}

// through edits some objects during a fault and after it.
func (e *edge) through(t *testing.T, f fault) {
	e = &edge{World: e.World, Site: e.Site, t: t, space: e.space}
	kept, edited, dropped, made := f.name+"-kept", f.name+"-edited", f.name+"-dropped", f.name+"-made"
	for _, n := range []string{kept, edited, dropped} {
		e.put(n, "1")
	}
	for _, n := range []string{kept, edited, dropped} {
		e.waitFor(n, "1")
	}
	before := e.uid(edited)
	start := time.Now()
	f.begin()

	value := 2
	e.put(edited, "2")
	e.drop(dropped)
	e.put(made, "1")
	if f.passes {
		for !e.passes(f, edited, fmt.Sprint(value), made, dropped) {
			t.Log("too slow: once more")
			f.end()
			e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven })
			f.begin()
			value++
			e.put(edited, fmt.Sprint(value))
		}
	}
	e.tamper(kept)
	e.waitFor(kept, "1")
	e.steal(kept)
	e.waitFor(kept, "1")
	if f.deaf {
		e.waitForStatus(func(s agent.Status) bool { return !s.Connected })
		if n := e.deletions(start); n > 0 {
			t.Errorf("%d deletions while the agent was cut off from the hub", n)
		}
	}
	if f.lost {
		e.connected(metav1.ConditionFalse)
		e.tamper(kept)
		e.waitFor(kept, "1")
	}

	healed := time.Now()
	f.end()
	e.waitFor(edited, fmt.Sprint(value))
	e.waitFor(made, "1")
	e.gone(dropped)
	e.waitFor(kept, "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven })
	if f.lost {
		e.connected(metav1.ConditionTrue)
	}
	t.Logf("in order %s after the link was healed", time.Since(healed).Round(time.Millisecond))
	if e.uid(edited) != before {
		t.Error("the edited object was replaced")
	}
	e.deleted(start, 1)
}

// passes waits until all edits have come, and returns false if a brief fault has ended the session
// before.
func (e *edge) passes(f fault, edited, value, made, dropped string) (came bool) {
	e.t.Helper()
	env.Eventually(e.t, soon, func() error {
		_, err := e.target().Get(e.t.Context(), dropped, metav1.GetOptions{})
		if err == nil {
			err = fmt.Errorf("%s is still there", dropped)
		} else if apierrors.IsNotFound(err) {
			err = nil
		}
		err = errors.Join(err, e.checkTarget(edited, value), e.checkTarget(made, "1"))
		if came = err == nil; came || !f.brief {
			return err
		}
		if s, wrong := agent.ReadStatus(e.Agent.Dir); wrong == nil && !s.Connected {
			return nil
		}
		return err
	})
	return came
}

// TestRestartWithoutHub restarts an agent whose hub is away: it keeps the
// location as its disk says.
func TestRestartWithoutHub(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.put("a", "1")
	e.put("b", "1")
	e.waitFor("a", "1")
	e.waitFor("b", "1")
	e.Link.Cut()
	e.Agent.Kill()
	e.put("a", "2")
	e.drop("b")
	e.put("c", "1")
	e.tamper("a")
	e.steal("b")
	e.Agent.Start()
	e.waitFor("a", "1")
	e.waitFor("b", "1")
	e.steal("a")
	e.waitFor("a", "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Running && !s.Connected && s.LastError != "" && s.Desired == 2 })
	e.Agent.Kill()
	e.Agent.Start()
	e.tamper("b")
	e.waitFor("b", "1")

	e.Link.Heal()
	e.waitFor("a", "2")
	e.waitFor("c", "1")
	e.gone("b")
	e.Invariants()
}
