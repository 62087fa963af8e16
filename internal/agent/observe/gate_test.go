package observe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestGateSaysWhy shows the order of the reasons for which nothing is changed.
func TestGateSaysWhy(t *testing.T) { synctest.Test(t, gateSaysWhy) }

func gateSaysWhy(t *testing.T) {
	e := worklist.New()
	g := NewGate(e, nil, quiet)
	g.Begin()
	for _, c := range []struct {
		halt     string
		observes bool
		broken   string
		want     string
		worked   bool
	}{
		{"", false, "no answer", "no answer", false},
		{"paused", true, "no answer", "paused", false},
		{"paused", true, "", "paused", true},
		{"superseded", false, "", "superseded", false},
		{"", false, "", "", true},
	} {
		g.SetHalt(func() (string, bool) { return c.halt, c.observes })
		g.setBroken(c.broken)
		if why := g.Why(); why != c.want {
			t.Errorf("halt %q, broken %q: %q, want %q", c.halt, c.broken, why, c.want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		e.Touch([]store.Touched{{Object: key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "a"}}, Want: &store.Want{}}})
		it, ok := e.Next(ctx)
		cancel()
		if ok != c.worked {
			t.Errorf("halt %q, broken %q: a worker got %v", c.halt, c.broken, it)
		}
		if !ok {
			continue
		}
		if why := e.View(it).Halt; why != c.halt {
			t.Errorf("halt %q: the turn has %q", c.halt, why)
		}
		e.Finish(it, worklist.Result{Wanted: true})
	}
}

// TestClusterOfGate shows when the target counts as unavailable: from the first failure on if it has
// never answered, and else when it has not answered for a while.
func TestClusterOfGate(t *testing.T) { synctest.Test(t, clusterOfGate) }

func clusterOfGate(t *testing.T) {
	g := NewGate(worklist.New(), nil, quiet)
	is := func(when string, want wire.ClusterState, since time.Time, message string) {
		t.Helper()
		wanted := wire.ClusterStatus{State: want, Message: message}
		if !since.IsZero() {
			wanted.Since = since.UTC().Format(time.RFC3339)
		}
		if got := g.Cluster(); got != wanted {
			t.Errorf("%s: %+v, want %+v", when, got, wanted)
		}
	}
	began := time.Now()
	is("nothing was asked", wire.ClusterUnknown, time.Time{}, "")
	retry.Pause(t.Context(), time.Minute)
	g.setBroken("refused")
	is("it has never answered", wire.ClusterUnavailable, began, "refused")
	g.setBroken("")
	is("it answers", wire.ClusterAvailable, time.Time{}, "")
	retry.Pause(t.Context(), time.Minute)
	g.setBroken("refused")
	ceased := time.Now()
	is("it has just ceased to answer", wire.ClusterAvailable, time.Time{}, "")
	retry.Pause(t.Context(), unavailableAfter-time.Millisecond)
	g.setBroken("no answer")
	is("for a while", wire.ClusterAvailable, time.Time{}, "")
	retry.Pause(t.Context(), time.Millisecond)
	is("for longer", wire.ClusterUnavailable, ceased, "no answer")
	g.setBroken("")
	is("it answers again", wire.ClusterAvailable, time.Time{}, "")
}

// TestHaltedAgentObservesNothing shows that a cluster counts as unavailable to the hub while its agent is halted
// and does not observe it: what the agent reported before may be old.
func TestHaltedAgentObservesNothing(t *testing.T) { synctest.Test(t, haltedAgentObservesNothing) }

func haltedAgentObservesNothing(t *testing.T) {
	g := NewGate(worklist.New(), nil, quiet)
	g.setBroken("")
	is := func(when string, want wire.ClusterState, message string) {
		t.Helper()
		if got := g.Observed(); got.State != want || got.Message != message {
			t.Errorf("%s: %+v, want %s %q", when, got, want, message)
		}
		if got := g.Cluster(); got.State != wire.ClusterAvailable {
			t.Errorf("%s: the API server answers, not %+v", when, got)
		}
	}
	halt := func(why string, observes bool) {
		g.SetHalt(func() (string, bool) { return why, observes })
		retry.Pause(t.Context(), unavailableAfter)
	}
	halt("paused", true)
	is("a paused agent", wire.ClusterAvailable, "")
	halt("moved", false)
	is("an agent of another rule for namespaces", wire.ClusterUnavailable, "moved")
	halt("", false)
	is("one that goes on", wire.ClusterAvailable, "")
	g.Stop("superseded")
	is("one that has just been superseded", wire.ClusterAvailable, "")
	retry.Pause(t.Context(), unavailableAfter)
	is("a superseded one", wire.ClusterUnavailable, "superseded")
}
