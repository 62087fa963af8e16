package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
)

// TestAgentDiskFull fills the disk of an agent: it keeps the location in the last known
// state, reports that the store can't be written, deletes nothing, and catches up when
// there is room.
func TestAgentDiskFull(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.put("kept", "1")
	e.put("dropped", "1")
	e.waitFor("kept", "1")
	e.waitFor("dropped", "1")
	info, err := os.Stat(filepath.Join(e.Agent.Dir, "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	e.Agent.LimitFiles(info.Size())
	large := strings.Repeat("x", 100<<10)
	for n := range 5 {
		e.put(fmt.Sprint("large-", n), large)
	}
	e.put("last", "1")
	env.Eventually(t, soon, func() error {
		if !strings.Contains(e.Agent.Stderr(), "the store cannot be written") {
			return errors.New("the agent's log says nothing of its disk")
		}
		return nil
	})
	if !e.Agent.Running() {
		t.Fatal("the agent ended")
	}
	for range 3 {
		e.tamper("kept")
		e.waitFor("kept", "1")
		e.steal("kept")
		e.waitFor("kept", "1")
	}
	if n := e.deletions(start); n > 0 {
		t.Errorf("the agent deleted %d objects", n)
	}

	e.Agent.Kill() // with a store that could not be written
	e.Agent.Start()
	e.waitFor("last", "1")
	e.drop("dropped")
	e.gone("dropped")
	e.waitFor("kept", "1")
	for n := range 5 {
		e.waitFor(fmt.Sprint("large-", n), large)
	}

	info, err = os.Stat(filepath.Join(e.Agent.Dir, "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	e.Agent.LimitFiles(info.Size())
	larger := strings.Repeat("y", 900<<10)
	for n := range 5 {
		e.put(fmt.Sprint("larger-", n), larger)
	}
	warnings := strings.Count(e.Agent.Stderr(), "the store cannot be written")
	env.Eventually(t, soon, func() error {
		if strings.Count(e.Agent.Stderr(), "the store cannot be written") == warnings {
			return errors.New("the agent's log says nothing of its disk")
		}
		return nil
	})
	e.Agent.LimitFiles(env.Unlimited) // there is room again
	for n := range 5 {
		e.waitFor(fmt.Sprint("larger-", n), larger)
	}
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven })
	e.Invariants()
}

// TestAgentStartsOnBadDisk starts an agent whose disk is full or read-only: it enforces what its store has, reports
// that the store can't be written, deletes nothing, and catches up by itself when the disk can be written.
func TestAgentStartsOnBadDisk(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.put("kept", "1")
	e.put("dropped", "1")
	e.waitFor("kept", "1")
	e.waitFor("dropped", "1")
	e.Agent.Stop()
	disk := env.StartDisk(t, e.Agent.Dir)
	for i, fault := range []struct {
		name        string
		begin, heal func()
	}{
		{"read-only", disk.Lock, disk.Unlock},
		{"full", disk.Fill, disk.Empty},
	} {
		start, value := time.Now(), fmt.Sprint("after ", fault.name)
		dropped := "dropped"
		if i > 0 {
			dropped = "dropped-again"
		}
		fault.begin()
		e.tamper("kept")
		e.drop(dropped)
		e.put("new", value)
		before := strings.Count(e.Agent.Stderr(), "the store cannot be written")
		e.Agent.Start()
		e.waitFor("kept", "1")
		e.steal("kept")
		e.waitFor("kept", "1")
		env.Eventually(t, soon, func() error {
			if strings.Count(e.Agent.Stderr(), "the store cannot be written") == before {
				return errors.New("the agent's log says nothing of its disk")
			}
			return nil
		})
		if n := e.deletions(start); n > 0 {
			t.Errorf("%s: the agent deleted %d objects", fault.name, n)
		}
		fault.heal()
		e.waitFor("new", value)
		e.gone(dropped)
		e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven && s.Unsent == 0 })
		e.put("dropped-again", "1")
		e.waitFor("dropped-again", "1")
		e.Agent.Stop()
	}
	e.Agent.Start()
	e.waitFor("kept", "1")
	e.Invariants()
}

// TestHubDiskFull fills the disk of a hub: what it acknowledged is there when it
// has room again, and nothing is deleted at the location.
func TestHubDiskFull(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.put("kept", "1")
	e.waitFor("kept", "1")
	info, err := os.Stat(filepath.Join(e.Hub.Dir, "etcd", "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	e.Hub.LimitFiles(info.Size())
	value := strings.Repeat("x", 200<<10)
	var acknowledged []string
	for n := range 200 {
		name := fmt.Sprint("large-", n)
		_, err := e.source().Apply(t.Context(), name, configMap(name, value), metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			t.Logf("after %d writes: %v", n, err)
			break
		}
		acknowledged = append(acknowledged, name)
	}
	if len(acknowledged) == 200 {
		t.Error("the hub noticed nothing")
	}
	e.steal("kept")
	e.waitFor("kept", "1")
	if e.Hub.Running() {
		t.Log("the hub still runs")
		e.Hub.LimitFiles(env.Unlimited)
		e.Hub.Kill()
	}
	e.Hub.Start()
	for _, name := range acknowledged {
		e.waitFor(name, value)
	}
	e.put("kept", "2")
	e.waitFor("kept", "2")
	if n := e.deletions(start); n > 0 {
		t.Errorf("the agent deleted %d objects", n)
	}
	e.Invariants()
}
