package agent

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestModelHubKeepsTheContract shows that the hub of the model behaves as the real one.
func TestModelHubKeepsTheContract(t *testing.T) {
	lacks := protocol.Lacks{
		"Impersonates":     "the model's location has no spec.admit: who acts is part of what is desired",
		"ImpersonatesNot":  "the same",
		"Admits":           "the same",
		"Confirmed":        "the model says itself when what is to be gone is no longer asked for",
		"TokenReplaced":    "the model's agent has one token for ever",
		"LocationGone":     "the model's location is made again, and never just gone",
		"Purge":            "the model takes its content away itself when it purges",
		"ReportsTooLarge":  "the model's agent reports what fits",
		"Refusals":         "the model's agent sends what makes sense; rules of protocol.Hub say so",
		"RefusalsOfOthers": "the model has one location, whose agent is the only one who asks",
		"Upsync":           "the model's hub asks for nothing that was not placed; that of TestModelCensus does",
		"UpsyncYields":     "the same",
		"UpsyncEnds":       "the same",
		"UpsyncLimits":     "the same",
		"Owned":            "the same",
		"SeenWalk":         "the same",
		"Status":           "the model's hub asks for the list of APIs now and then, by chance",
	}
	maps.Copy(lacks, protocol.Before())
	protocol.TestHub(t, lacks, func(t *testing.T, check func(*testing.T, protocol.States)) {
		synctest.Test(t, func(t *testing.T) {
			check(t, &centerStates{center: newCenter(rand.New(noRareEvents{}))})
		})
	})
}

// noRareEvents is a source of randomness with which no rare event ever happens.
type noRareEvents struct{}

func (noRareEvents) Uint64() uint64 { return math.MaxUint64 }

// centerStates brings about states of the model's hub.
type centerStates struct {
	*center
	made int
	copy int64
}

func (c *centerStates) Client() *protocol.Client {
	return &protocol.Client{
		Join: wire.Join{Hub: "https://hub", Location: "paris"},
		HTTP: &http.Client{Transport: spoke{center: c.center, dead: &atomic.Bool{}}},
	}
}

func (c *centerStates) Impersonate(string) {}
func (c *centerStates) Admit(bool)         {}

// do changes something at the hub.
func (c *centerStates) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *centerStates) put(name, value string, policy wire.Policy) {
	c.do(func() {
		uid := fmt.Sprint("uid-", c.made)
		if f := c.content(c.revision)[protocol.KeyOf(name)]; f.Put != nil {
			uid = f.Put.UID
		} else {
			c.made++
		}
		object := canonical(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"}, "data": map[string]any{"k": value},
		})
		c.write(wire.Frame{Put: &wire.Put{Key: protocol.KeyOf(name), UID: uid, Digest: wire.SumOf(object), Policy: policy, Object: object}})
	})
}

func (c *centerStates) Desire(name, value string) { c.put(name, value, wire.Policy{}) }
func (c *centerStates) Protect(name string)       { c.put(name, "1", wire.Policy{CreateOnly: true}) }

func (c *centerStates) Await(string)     {}
func (c *centerStates) Upsync(...string) {}
func (c *centerStates) Bound(int)        {}
func (c *centerStates) Associate(string) {}

func (c *centerStates) Hold(name string) {
	c.do(func() {
		c.write(wire.Frame{Hold: &wire.Hold{Key: protocol.KeyOf(name), UID: "u", Digest: digest("hold"), Reason: v1alpha1.ReasonSuspended, Error: "a rule fails"}})
	})
}

func (c *centerStates) Conflict(name string) {
	c.do(func() {
		c.write(wire.Frame{Conflict: &wire.Conflict{Key: protocol.KeyOf(name), UID: "u", Digest: digest("conflict"), Owner: "t/" + name}})
	})
}

func (c *centerStates) Delete(name string) {
	c.do(func() { c.write(del(protocol.KeyOf(name), wire.Deleted)) })
}

func (c *centerStates) Unassign(name string) {
	c.do(func() { c.write(del(protocol.KeyOf(name), wire.Unassigned)) })
}

// set changes the settings.
func (c *centerStates) set(change func(*wire.Settings)) {
	c.do(func() {
		change(&c.settings)
		c.say()
	})
}

func (c *centerStates) Pause(paused bool) {
	c.set(func(s *wire.Settings) {
		if s.Halt = ""; paused {
			s.Halt = "paused"
		}
	})
}

func (c *centerStates) Prune(percent int) {
	c.set(func(s *wire.Settings) { s.PruneMaxPercent = percent })
}
func (c *centerStates) Accept(marker string) { c.set(func(s *wire.Settings) { s.Accept = marker }) }
func (c *centerStates) Purge(purged bool)    { c.set(func(s *wire.Settings) { s.Purge = purged }) }

func (c *centerStates) Forget()   { c.do(func() { c.revision++; c.window = c.revision }) }
func (c *centerStates) Restart()  { c.do(c.start) }
func (c *centerStates) Backup()   { c.do(func() { c.copy = c.revision }) }
func (c *centerStates) Restore()  { c.do(func() { c.restore(c.copy) }) }
func (c *centerStates) NewToken() {}
func (c *centerStates) Remove()   {}

// TestAgentKeepsTheContract shows that the agent sends only what an agent may, and does
// what it must, whatever its hub answers.
func TestAgentKeepsTheContract(t *testing.T) {
	server := httptest.NewTLSServer(nil) // whose certificate will do
	server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	protocol.TestAgent(t, nil, func(t *testing.T, check func(*testing.T, *protocol.Hub, protocol.Agent)) {
		synctest.Test(t, func(t *testing.T) {
			hub := protocol.NewHub("paris")
			a := &contracted{t: t, hub: hub, dir: t.TempDir(), ca: ca, line: &lifeline{cluster: newCluster(rand.New(noRareEvents{})), last: -1}}
			t.Cleanup(a.Stop)
			check(t, hub, a)
		})
	})
}

// contracted is a whole agent between a hub and a cluster in memory.
type contracted struct {
	t    *testing.T
	hub  *protocol.Hub
	dir  string
	ca   string
	line *lifeline
	stop func()
}

func (c *contracted) Start() {
	join := c.hub.Join("https://hub", c.ca)
	a, err := New(Config{Join: join, Target: &rest.Config{Host: "http://cluster", Transport: c.line}, DataDir: c.dir, Version: "v9", Workers: 3})
	if err != nil {
		c.t.Fatal(err)
	}
	a.hub = hubclient.Over(c.hub.Client().HTTP.Transport, join, "orrery-agent/v9", key.Shard{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	c.stop = func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("the agent ended with: %v", err)
		}
	}
	<-a.Ready()
}

func (c *contracted) Stop() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}
