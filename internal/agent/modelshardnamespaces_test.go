package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelShardNamespaces shows that an agent creates no Namespace for an object if another shard has the Namespace: a
// bare one would lack its labels. It creates one that no shard has, also while the hub does not answer, and one that
// the other shard no longer has.
func TestModelShardNamespaces(t *testing.T) {
	namespace := key.Identity{Resource: key.Namespaces, Name: "a"}
	isImplied := func(c *crew) (is, exists bool) {
		c.cluster.mu.Lock()
		defer c.cluster.mu.Unlock()
		o := c.cluster.objects[namespace.String()]
		return o != nil && implied(o), o != nil
	}
	state := func(c *crew, k string) (wire.State, string) {
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		return c.hub.reports[k].State, c.hub.reports[k].Reason
	}
	run := func(name string, do func(c *crew, inside, container string)) {
		t.Run(name, func(t *testing.T) {
			runCrew(t, 2, func(c *crew) {
				inside := string(c.falling(1, 2)) + "/core/configmaps/a/x"
				container := string(c.falling(2, 2)) + "/" + namespace.String()
				c.mustSettle("nothing is desired")
				do(c, inside, container)
			})
		})
	}
	waits := func(c *crew, inside string) {
		c.t.Helper()
		c.pass(3 * time.Minute)
		if _, exists := isImplied(c); exists {
			c.t.Error("the Namespace of another shard was created")
		}
		if s, reason := state(c, inside); s != wire.Waiting || reason != v1alpha1.ReasonWaitsForNamespace {
			c.t.Errorf("the object is reported %s/%s", s, reason)
		}
	}
	run("stopped", func(c *crew, inside, container string) {
		c.stop(c.running(2), true)
		c.edit(container, 1)
		c.edit(inside, 1)
		waits(c, inside)
		c.mustSettle("the other shard has an agent again")
		if is, exists := isImplied(c); is || !exists {
			c.t.Errorf("the Namespace exists: %t, and is implied: %t", exists, is)
		}
	})
	run("held", func(c *crew, inside, container string) {
		c.hub.mu.Lock()
		c.hub.write(wire.Frame{Hold: &wire.Hold{Key: container, UID: "u", Digest: wire.SumOf([]byte("hold:x")), Reason: "x", Error: "a rule fails"}})
		c.hub.mu.Unlock()
		c.edit(inside, 1)
		waits(c, inside)
		c.drop(container)
		c.mustSettle("it is no longer placed")
		if is, _ := isImplied(c); !is {
			c.t.Error("the Namespace is not implied")
		}
	})
	run("no shard has it", func(c *crew, inside, _ string) {
		c.edit(inside, 1)
		c.pass(2 * time.Second)
		if is, _ := isImplied(c); !is {
			c.t.Error("the Namespace is not implied at once")
		}
	})
	run("hub away, agent restarted", func(c *crew, inside, container string) {
		c.stop(c.running(2), true)
		c.edit(container, 1)
		c.edit(inside, 1)
		waits(c, inside)
		c.change(0)
		c.stop(c.running(1), true)
		c.start(1)
		c.pass(3 * time.Minute)
		if _, exists := isImplied(c); exists {
			c.t.Error("the Namespace of another shard was created by an agent that the hub has not answered")
		}
		c.mustSettle("hub and agents are there again")
		if is, exists := isImplied(c); is || !exists {
			c.t.Errorf("the Namespace exists: %t, and is implied: %t", exists, is)
		}
	})
	run("hub away", func(c *crew, inside, _ string) {
		c.edit(inside, 1)
		c.mustSettle("it is there")
		c.change(0)
		c.cluster.mu.Lock()
		c.cluster.remove(namespace.String())
		c.cluster.mu.Unlock()
		c.pass(2 * time.Minute)
		if is, _ := isImplied(c); !is {
			c.t.Error("while the hub is away, the Namespace does not come back")
		}
	})
}

// TestModelShardNamespaceTurns shows that objects that wait for a Namespace of another shard cost nothing while they
// wait: one of them has a turn from time to time. When the Namespace arrives, all are created.
func TestModelShardNamespaceTurns(t *testing.T) {
	const objects, minutes = 1000, 8
	runCrew(t, 2, func(c *crew) {
		inside, container := string(c.falling(1, 2))+"/core/configmaps/a/", string(c.falling(2, 2))+"/core/namespaces/a"
		c.mustSettle("nothing is desired")
		c.stop(c.running(2), true)
		c.edit(container, 1)
		before := attempts(t, c.running(1))
		for i := range objects {
			c.edit(fmt.Sprint(inside, i), 1)
		}
		c.pass(20 * time.Second)
		waiting := attempts(t, c.running(1))
		if n := waiting - before; n > 3*objects {
			t.Errorf("%d turns until all waited", n)
		}
		c.pass(minutes * time.Minute)
		// The scout has a turn every 5 seconds, and one more for each answer of the hub.
		if n := attempts(t, c.running(1)) - waiting; n < minutes*60/10 || n > minutes*60/5*2 {
			t.Errorf("%d turns in %d minutes", n, minutes)
		}
		c.staff()
		c.pass(10 * time.Second)
		c.cluster.mu.Lock()
		defer c.cluster.mu.Unlock()
		for i := range objects {
			if id := identityOf(fmt.Sprint(inside, i)).String(); c.cluster.objects[id] == nil {
				t.Fatalf("%s is missing, although its Namespace is there", id)
			}
		}
	})
}

// attempts returns how many turns an agent has given to objects.
func attempts(t *testing.T, l *life) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(l.metrics.work)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return int(families[0].GetMetric()[0].GetHistogram().GetSampleCount())
}
