package shards

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
)

// TestShards replaces the agent of a whole location by the agents of two shards, these by the agents
// of three, and these by one agent again, with kills, pauses and a stopped hub in between.
func TestShards(t *testing.T) {
	t.Parallel()
	// Former shards count as connected until the hub misses their agents.
	w := newSite(t, "--heartbeat", "5s", "--disconnected-after", "5s")
	whole := w.agent("1/1", w.Cluster.AgentKubeconfig)
	w.converged()

	// The agent of a shard waits until the agent of the whole location knows the shards.
	w.sent(whole)
	w.orrery("location", "shards", location, "2")
	second := w.agent("2/2", w.Cluster.AgentKubeconfig)
	w.halted(whole, "the location is shared by shards at this cluster")
	w.hasCondition("OtherShards", "1/1")
	whole.Stop()
	first := w.again(whole, "1/2")
	w.converged()
	w.connected("1/2", "2/2")
	manifest := w.orrery("location", "token", location, "--shard", "2", "--manifest", "--image", "i")
	if output := env.KubectlIn(t, w.Cluster.Kubeconfig, manifest, "apply", "--dry-run=server", "-f", "-"); !strings.Contains(output, "deployment.apps/orrery-agent-2 created") {
		t.Error(output)
	}

	// An object of another shard keeps a Namespace.
	w.kubectl(w.spaceOf(1), "delete", "namespace", shared, "--wait=false")
	w.edit("2")
	w.converged()
	if _, err := w.Cluster.Client.CoreV1().Namespaces().Get(t.Context(), shared, metav1.GetOptions{}); err != nil {
		t.Errorf("a Namespace in which another shard has an object: %v", err)
	}

	// After a kill, an agent of the same shard continues once the Lease has expired.
	second.Kill()
	w.edit("3")
	second.Start()
	w.converged()

	// An agent that hangs for longer than its Lease lasts has lost it, and does nothing while another
	// agent holds it.
	second.Signal(syscall.SIGSTOP)
	other := w.agent("2/2", w.Cluster.Kubeconfig)
	w.edit("4")
	w.converged()
	second.Signal(syscall.SIGCONT)
	w.edit("5")
	w.converged()
	second.Kill()

	// While the hub is stopped, agents of a new number of shards change nothing as long as agents of
	// the former number hold their Leases.
	w.sent(first)
	w.sent(other)
	w.orrery("location", "shards", location, "3")
	third := w.agent("3/3", w.Cluster.AgentKubeconfig)
	w.halted(third, "is held by")
	w.hub.Kill()
	first.Kill()
	w.halted(third, "is held by")
	w.hub.Start()
	other.Stop()
	first = w.again(first, "1/3")
	w.halted(first, "delete the Lease")
	w.evict(1)
	w.outdated(first) // another agent may have held the shard
	w.passedOn(2)     // to the agents of three shards, some of which are active now
	other = w.again(other, "2/3")
	w.outdated(other)
	w.edit("6")
	w.converged()
	w.connected("1/3", "2/3", "3/3")

	// An evicted agent that still runs stops before another agent gets its spaces.
	w.sent(first)
	w.orrery("location", "shards", location, "1")
	third.Stop()
	other.Stop()
	w.evict(1)
	w.halted(first, "its Lease was deleted")
	first.Stop()
	whole = w.again(first, "1/1")
	w.halted(whole, "the location is shared by shards")
	for number := range 3 {
		w.evict(number + 1)
	}
	w.edit("7")
	w.converged()

	w.kept()
	w.witness()
}

// outdated waits until an agent has exited because its store is outdated, and starts it with a new
// store.
func (w *site) outdated(a *env.Agent) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		if a.Running() {
			return errors.New("the agent continues")
		}
		return nil
	})
	a.Start()
}

// sent waits until the hub has all reports of an agent.
func (w *site) sent(a *env.Agent) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		if s := w.status(a); s.Unsent > 0 || s.Queued > 0 || time.Since(s.Updated) < 2*time.Second {
			return fmt.Errorf("%d reports are not sent", s.Unsent)
		}
		return nil
	})
}

// halted waits until an agent reports that it is halted, with a reason.
func (w *site) halted(a *env.Agent, why string) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		if reason := w.status(a).Halt; !strings.Contains(reason, why) {
			return fmt.Errorf("the agent is halted for %q, not for %q", reason, why)
		}
		return nil
	})
}

// hasCondition waits until the condition Connected of the location has a reason and names the shard
// of the rejected agent.
func (w *site) hasCondition(reason, shard string) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		output, err := env.TryKubectl(w.t, w.Root, "get", "location", location, "-o", `jsonpath={.status.conditions[?(@.type=="Connected")]}`)
		if err != nil {
			return err
		}
		if !strings.Contains(output, reason) || !strings.Contains(output, "--shards "+shard) {
			return fmt.Errorf("the condition Connected is %s, want reason %s for --shards %s", output, reason, shard)
		}
		return nil
	})
}

// connected waits until the location is connected, with agents of exactly these shards.
func (w *site) connected(shards ...string) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		output, err := env.TryKubectl(w.t, w.Root, "get", "location", location, "-o",
			`jsonpath={.status.conditions[?(@.type=="Connected")].status} {range .status.agent.shards[?(@.connected==true)]}{.shard} {end}`)
		if err != nil {
			return err
		}
		if want := "True " + strings.Join(shards, " "); strings.TrimSpace(output) != want {
			return fmt.Errorf("the condition Connected and the connected shards are %q, want %q", output, want)
		}
		return nil
	})
	if output := w.orrery("location", "describe", location); len(shards) > 0 && !strings.Contains(output, "Shard "+shards[0]) {
		w.t.Error(output)
	}
}

// evict deletes the Lease of a shard, as an operator does.
func (w *site) evict(number int) {
	w.t.Helper()
	err := w.Cluster.Client.CoordinationV1().Leases(leases).Delete(w.t.Context(), w.nameOfLease(number), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// passedOn waits until the Lease of a shard names no store, since other agents now have the spaces of
// its last holder.
func (w *site) passedOn(number int) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		l, err := w.Cluster.Client.CoordinationV1().Leases(leases).Get(w.t.Context(), w.nameOfLease(number), metav1.GetOptions{})
		if store := l.Annotations["orrery.dev/store"]; err == nil && store != "" {
			err = fmt.Errorf("the Lease names the store %s", store)
		}
		return err
	})
}

// unrenewed waits until the Lease of a shard has not been renewed for a time, or does not exist.
func (w *site) unrenewed(number int, long time.Duration) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		l, err := w.Cluster.Client.CoordinationV1().Leases(leases).Get(w.t.Context(), w.nameOfLease(number), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case l.Spec.RenewTime == nil || time.Since(l.Spec.RenewTime.Time) < long:
			return fmt.Errorf("it was renewed at %s", l.Spec.RenewTime)
		}
		return nil
	})
}

// nameOfLease returns the name of the Lease of a shard.
func (w *site) nameOfLease(number int) string {
	w.t.Helper()
	uid, err := w.LocationUID(location)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("orrery-%s.%s-%d", location, uid[:8], number)
}

// kept checks that no object has been deleted and created again.
func (w *site) kept() {
	w.t.Helper()
	for space, uid := range w.uids {
		m, err := w.Cluster.Client.CoreV1().ConfigMaps(string(space)).Get(w.t.Context(), "m", metav1.GetOptions{})
		if err != nil || m.UID != uid {
			w.t.Errorf("the object of space %s was created again: %v %v", space, m.UID, err)
		}
	}
}

// witness checks in the audit log of the cluster that the objects of each space were written by the
// agents to which the space was assigned, one after the other.
func (w *site) witness() {
	w.t.Helper()
	for _, space := range w.spaces {
		var seen []string
		for _, e := range w.Cluster.AllRequests(w.t, env.Filter{UserAgent: "orrery-agent/", Writes: true, Resource: "configmaps", Namespace: string(space)}) {
			if strings.Contains(e.RequestURI, "dryRun") || e.Response.Code >= 400 {
				continue
			}
			_, text, sharded := strings.Cut(e.UserAgent, "(shard ")
			text = strings.TrimSuffix(text, ")")
			if !sharded {
				text = "1/1"
			}
			shard, err := key.ParseShard(text)
			if err != nil || !shard.Contains(space) {
				w.t.Errorf("%s of space %s was written by the agent of shard %s", e.RequestURI, space, text)
			}
			if author := text + " " + e.User.Username; len(seen) == 0 || seen[len(seen)-1] != author {
				seen = append(seen, author)
			}
		}
		sorted := slices.Clone(seen)
		slices.Sort(sorted)
		twice := len(slices.Compact(sorted)) != len(seen)-1 // the agent of the whole location is first and last
		if twice || len(seen) < 3 || seen[0] != seen[len(seen)-1] {
			w.t.Errorf("space %s was written by %v, in this order", space, seen)
		}
	}
}

// wait is how long a Lease lasts here.
const wait = 2 * time.Second
