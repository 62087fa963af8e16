package main

import (
	"context"
	"testing"
	"testing/synctest"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// noTarget is why what the bench counts as an agent can't do what is done at a target.
const noTarget = "it has no target"

// TestSimulatedAgent shows that what the bench counts as an agent sends what an agent
// may, as far as it does what one does.
func TestSimulatedAgent(t *testing.T) {
	const once = "it has one session, at a location that has nothing when that begins"
	lacks := protocol.Lacks{
		"Begins": once, "Resumes": once, "KeepsWhatItHas": once, "Walks": once, "WalksInPages": once, "Compares": once,
		"AnotherLog": once, "Refusals": once, "Silence": once, "Replaced": once, "RetryAfter": once,
		"Halts": noTarget, "Impersonates": noTarget, "Looks": noTarget, "ReportsFirst": noTarget, "Confirms": noTarget, "Yields": noTarget, "Announces": "it says nothing of itself",
		"ReportsAgain": "a report that is not taken fails the bench", "ReportsRefused": "a report that is not taken fails the bench",
		"NewerHub": "it is of the same build as its hub",
	}
	protocol.TestAgent(t, lacks, func(t *testing.T, check func(*testing.T, *protocol.Hub, protocol.Agent)) {
		hub := protocol.NewHub("sim-0000")
		check(t, hub, &oneSession{t: t, hub: hub})
	})
}

// oneSession is a simulated agent with a hub.
type oneSession struct {
	t    *testing.T
	hub  *protocol.Hub
	stop func()
}

func (o *oneSession) Start() {
	arrivals := make(chan arrival, 100)
	client, err := protocol.TokenClient(o.hub.Start(o.t))
	if err != nil {
		o.t.Fatal(err)
	}
	agent := newSimulated(client, arrivals, &answers{keys: map[int64]int{}})
	ctx, cancel := context.WithCancel(context.Background())
	connected, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- agent.run(ctx, connected) }()
	o.stop = func() {
		cancel()
		<-done // its context is canceled
	}
	select {
	case <-connected:
	case err := <-done:
		o.t.Fatal(err)
	}
}

func (o *oneSession) Stop() { o.stop() }

// TestResidentAgent shows the same of those that outlive their sessions.
func TestResidentAgent(t *testing.T) {
	const noStore = "it keeps nothing over its end"
	lacks := protocol.Lacks{
		"KeepsWhatItHas": noStore, "Walks": noStore, "Compares": noStore, "AnotherLog": noStore,
		"Refusals": "a hub that says what none does fails the bench", "Silence": "no hub of the bench is silent", "Replaced": "it has no rival",
		"RetryAfter": "it waits as long as an agent does that was told nothing", "ReportsRefused": "a report that is refused is not sent again",
		"ReportsAgain": "it takes each answer for one",
		"Halts":        noTarget, "Impersonates": noTarget, "Looks": noTarget, "ReportsFirst": noTarget, "Confirms": noTarget, "Yields": noTarget, "Announces": "it says that it is simulated, once a session",
		"NewerHub": "it is of the same build as its hub",
	}
	protocol.TestAgent(t, lacks, func(t *testing.T, check func(*testing.T, *protocol.Hub, protocol.Agent)) {
		synctest.Test(t, func(t *testing.T) {
			hub := protocol.NewHub("sim-0000")
			check(t, hub, &oneResident{hub: hub})
		})
	})
}

// oneResident is a resident with a hub.
type oneResident struct {
	hub  *protocol.Hub
	stop func()
}

func (o *oneResident) Start() {
	home := &residents{fleet: &fleet{}, backs: make(chan back, 100)}
	k := &resident{
		simulated: &simulated{
			Client: o.hub.Client(), arrivals: make(chan arrival, 1<<16), answers: &answers{keys: map[int64]int{}}, reports: make(chan wire.ReportLine, 100),
		},
		apis: []wire.API{{GroupVersion: "v1"}}, home: home, content: map[string]wire.Sum{}, reported: map[string]wire.Sum{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	home.ctx, home.fail = context.WithCancelCause(ctx)
	home.running.Go(func() { k.run(ctx) })
	home.running.Go(func() { k.reportOn(ctx) })
	o.stop = func() {
		cancel()
		home.running.Wait()
	}
}

func (o *oneResident) Stop() { o.stop() }
