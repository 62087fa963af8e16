package faults

import (
	"testing"
	"time"

	"orrery.dev/orrery/internal/mapper"
	"orrery.dev/orrery/test/env"
)

// TestLink breaks the link between agent and hub in every way. While it is broken
// the location is kept as the agent knew it; when it is healed the edits that
// were made meanwhile arrive, and nothing else happens.
func TestLink(t *testing.T) {
	e := newEdge(t)
	for _, fault := range []struct {
		name  string
		begin func(*env.Link)
		// passes says that edits arrive all the same, deaf that none does.
		passes, deaf bool
	}{
		{"cut", (*env.Link).Cut, false, true},
		{"cut-up", (*env.Link).CutUp, true, false}, // frames still come down
		{"cut-down", (*env.Link).CutDown, false, true},
		{"forgotten", (*env.Link).Forget, true, false},
		{"slow", func(l *env.Link) { l.Slow(100*time.Millisecond, 20<<10) }, true, false},
		{"dropping-early", func(l *env.Link) { l.DropMidFrame(100) }, false, true},
		{"dropping", func(l *env.Link) { l.DropMidFrame(4000) }, false, false},
	} {
		t.Run(fault.name, func(t *testing.T) { e.through(t, fault.name, fault.begin, fault.passes, fault.deaf) })
	}
	e.Invariants()
}

// through leads a handful of objects through one fault of the link.
func (e *edge) through(t *testing.T, name string, begin func(*env.Link), passes, deaf bool) {
	e = &edge{World: e.World, Site: e.Site, t: t, space: e.space}
	kept, edited, dropped, made := name+"-kept", name+"-edited", name+"-dropped", name+"-made"
	for _, n := range []string{kept, edited, dropped} {
		e.put(n, "1")
	}
	for _, n := range []string{kept, edited, dropped} {
		e.has(n, "1")
	}
	before := e.uid(edited)
	start := time.Now()
	begin(e.Link)

	e.put(edited, "2")
	e.drop(dropped)
	e.put(made, "1")
	if passes {
		e.has(edited, "2")
		e.has(made, "1")
		e.gone(dropped)
	}
	e.tamper(kept)
	e.has(kept, "1")
	e.steal(kept)
	e.has(kept, "1")
	if deaf {
		e.says(func(s mapper.Status) bool { return !s.Connected })
		if n := e.deletions(start); n > 0 {
			t.Errorf("%d deletions while the hub could not be heard", n)
		}
	}

	healed := time.Now()
	e.Link.Heal()
	e.has(edited, "2")
	e.has(made, "1")
	e.gone(dropped)
	e.has(kept, "1")
	e.says(func(s mapper.Status) bool { return s.Connected && s.Proven })
	t.Logf("in order %s after the link was healed", time.Since(healed).Round(time.Millisecond))
	if e.uid(edited) != before {
		t.Error("the edited object was replaced")
	}
	if n := e.deletions(start); n != 1 {
		t.Errorf("%d deletions for one deleted object", n)
	}
}

// TestRestartWithoutHub restarts an agent whose hub is away: it keeps the
// location as its disk says.
func TestRestartWithoutHub(t *testing.T) {
	e := newEdge(t)
	e.put("a", "1")
	e.put("b", "1")
	e.has("a", "1")
	e.has("b", "1")
	e.Link.Cut()
	e.Agent.Kill()
	e.put("a", "2")
	e.drop("b")
	e.put("c", "1")
	e.tamper("a")
	e.steal("b")
	e.Agent.Start()
	e.has("a", "1")
	e.has("b", "1")
	e.steal("a")
	e.has("a", "1")
	e.says(func(s mapper.Status) bool { return s.Running && !s.Connected && s.LastError != "" && s.Desired == 2 })
	e.Agent.Kill()
	e.Agent.Start()
	e.tamper("b")
	e.has("b", "1")

	e.Link.Heal()
	e.has("a", "2")
	e.has("c", "1")
	e.gone("b")
	e.Invariants()
}
