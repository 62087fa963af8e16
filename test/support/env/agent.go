package env

import (
	"path/filepath"
	"strings"
	"sync/atomic"
)

// gaveUp is what an agent prints last if its clean stop took longer than its own limit of seconds.
const gaveUp = "the agent did not stop within "

// mostLateStops is how many stops of agents in a process of tests may take longer than the limit of
// the agent. A busy machine makes one late now and then; an agent that is often late has a fault.
const mostLateStops = 2

// lateStops is the count of such stops in this process.
var lateStops atomic.Int32

// Agent is an agent process. Process.Kill and Process.Stop end it; it can then be
// started again.
type Agent struct {
	*Process
	// Dir is the data directory.
	Dir string
	// Ready is the line that the agent printed when it was last ready.
	Ready string

	t T
	// late counts the clean stops that took longer than the agent's own limit.
	late *atomic.Int32
}

// StartAgent starts an agent with an empty data directory of its own, for the location of the token and
// the cluster of the kubeconfig, and waits until it prints that it is ready.
func StartAgent(t T, name, token, kubeconfig string, args ...string) *Agent {
	t.Helper()
	a := NewAgent(t, name)
	a.run(append([]string{"--join", token, "--kubeconfig", kubeconfig}, args...)...)
	return a
}

// NewAgent returns an agent with an empty data directory of its own, which is not started.
func NewAgent(t T, name string) *Agent {
	t.Helper()
	dir := t.TempDir()
	return &Agent{
		Process: newProcess(t, "agent-"+name, "orrery-agent", dir),
		Dir:     filepath.Join(dir, "data"),
		t:       t,
		late:    &lateStops,
	}
}

// Start starts the agent after Kill or Stop with its data directory only, and waits until it prints that
// it is ready.
func (a *Agent) Start(args ...string) {
	a.t.Helper()
	a.run(args...)
}

// Stop is Process.Stop. A busy machine can make a clean stop take longer than the agent's own
// limit, after which the agent ends as if it was killed: the test goes on unless that has happened
// mostLateStops times before.
func (a *Agent) Stop() {
	a.t.Helper()
	err := a.stop()
	if err == nil {
		return
	}
	text := err.Error()
	if last := text[strings.LastIndexByte(text, '\n')+1:]; !strings.Contains(last, gaveUp) || a.late.Add(1) > mostLateStops {
		a.t.Errorf("%v", err)
		return
	}
	a.t.Logf("%v", err)
}

// Restart stops the agent cleanly and starts it again.
func (a *Agent) Restart() {
	a.t.Helper()
	a.Stop()
	a.Start()
}

func (a *Agent) run(args ...string) {
	a.t.Helper()
	before := a.lines()
	a.start(append([]string{"--data-dir", a.Dir}, args...)...)
	a.Ready = a.waitLine(before)
}
