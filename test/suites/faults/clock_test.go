package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	day = 24 * time.Hour
	// tooEarly is what TLS says of a certificate that is yet to begin.
	tooEarly = "certificate has expired or is not yet valid"
)

// TestClock moves the wall clock of an agent by days, while it runs and while it does
// not: the agent does not depend on it, but for the validity of certificates, which it
// reports if it is wrong.
func TestClock(t *testing.T) {
	t.Parallel()
	w := world.New(t) // whose heartbeat lets no session end on a busy machine
	e := edgeOf(t, w, env.StartLink(t, w.Hub.URL))
	e.Agent.Kill()
	e.Agent.OwnClock()
	e.Agent.Start()
	for _, subtest := range []struct {
		name string
		run  func(*edge)
	}{{"jumps", (*edge).clockJumps}, {"wrong", (*edge).clockWrong}, {"guard", (*edge).clockAndGuard}} {
		t.Run(subtest.name, func(t *testing.T) {
			subtest.run(&edge{World: e.World, Site: e.Site, t: t, space: e.space})
		})
	}
	e.Invariants()
}

// clockJumps: a jump does not end a session, nor change any wait, also of reports.
func (e *edge) clockJumps() {
	e.put("kept", "1")
	e.waitFor("kept", "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Queued == 0 })
	start, sessions := time.Now(), strings.Count(e.Agent.Stderr(), "connected to the hub")
	for i, ahead := range []time.Duration{day, -day, 0} {
		e.Agent.MoveClock(ahead)
		name := fmt.Sprint("jump-", i)
		e.put(name, "1")
		e.waitFor(name, "1")
		e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Unsent == 0 }) // no report waits for the former time
		e.tamper("kept")
		e.waitFor("kept", "1")
		e.drop(name)
		e.gone(name)
	}
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven })
	if n := strings.Count(e.Agent.Stderr(), "connected to the hub"); n != sessions {
		e.t.Errorf("there were %d other sessions", n-sessions)
	}
	e.deleted(start, 3)
}

// clockAndGuard: the removals of the last minutes still count after the clock was moved
// forward or back.
func (e *edge) clockAndGuard() {
	const free, more = 50, 5
	names := make([]string, free+3*more)
	for i := range names {
		names[i] = fmt.Sprint("guard-", i)
		e.put(names[i], "1")
	}
	e.waitFor(names[len(names)-1], "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Queued == 0 })
	e.Agent.MoveClock(2 * day)
	left, digest := names, ""
	unassign := func(n int) {
		e.t.Helper()
		for _, name := range left[:n] {
			if _, err := e.source().Patch(e.t.Context(), name, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"for":null}}}`), metav1.PatchOptions{}); err != nil {
				e.t.Fatal(err)
			}
		}
		left = left[n:]
	}
	waiting := func(n int) {
		e.t.Helper()
		e.waitForStatus(func(s agent.Status) bool {
			digest = s.PruneDigest
			return s.Connected && s.Queued == 0 && s.Guarded == n
		})
		env.Throughout(e.t, observation, func() (err error) {
			for _, name := range names[free : free+n] {
				err = errors.Join(err, e.checkTarget(name, "1"))
			}
			return err
		})
	}
	start := time.Now()
	unassign(free + more)
	waiting(more)
	e.Agent.MoveClock(3 * day)
	unassign(more)
	waiting(2 * more)
	e.Agent.MoveClock(0)
	e.Agent.Kill()
	e.Agent.Start()
	unassign(more)
	waiting(3 * more)
	e.deleted(start, free)
	env.Orrery(e.t, e.Root, "location", "confirm-prune", "edge", "--digest", digest)
	e.gone(names[len(names)-1])
}

// clockWrong checks that an agent that starts with a clock a day behind rejects every certificate
// and reports the reason. It changes nothing in the cluster, and recovers once the clock is correct.
func (e *edge) clockWrong() {
	e.put("wrong", "1")
	e.waitFor("wrong", "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Queued == 0 })
	e.Agent.Kill()
	e.Agent.MoveClock(-day)
	e.tamper("wrong")
	start := time.Now()
	e.Agent.Start()
	e.waitForStatus(func(s agent.Status) bool {
		return !s.Connected && strings.Contains(s.LastError, tooEarly) && strings.Contains(s.Halt, tooEarly)
	})
	e.staysAs("wrong", "tampered")
	e.Agent.MoveClock(0)
	e.waitFor("wrong", "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven && s.Halt == "" })
	if n := e.deletions(start); n > 0 {
		e.t.Errorf("the agent deleted %d objects", n)
	}
}
