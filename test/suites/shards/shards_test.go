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

// TestShards: the agent of a whole location is followed by two that share it, these by three
// and these by one again, through kills, pauses and a hub that is away.
func TestShards(t *testing.T) {
	t.Parallel()
	// Shards of before count as connected until the hub misses their agents.
	w := newSite(t, "--heartbeat", "5s", "--disconnected-after", "5s")
	whole := w.agent("1/1", w.Cluster.AgentKubeconfig)
	w.settled()

	// A shard's agent waits until that of the whole has seen that there are shards.
	w.sent(whole)
	w.orrery("location", "shards", location, "2")
	second := w.agent("2/2", w.Cluster.AgentKubeconfig)
	w.halted(whole, "the location is shared by shards at this cluster")
	w.says("OtherShards", "1/1")
	whole.Stop()
	first := w.again(whole, "1/2")
	w.settled()
	w.connected("1/2", "2/2")
	manifest := w.orrery("location", "token", location, "--shard", "2", "--manifest", "--image", "i")
	if said := env.KubectlIn(t, w.Cluster.Kubeconfig, manifest, "apply", "--dry-run=server", "-f", "-"); !strings.Contains(said, "deployment.apps/orrery-agent-2 created") {
		t.Error(said)
	}

	// What another shard has inside keeps a Namespace.
	w.kubectl(w.spaceOf(1), "delete", "namespace", shared, "--wait=false")
	w.edit("2")
	w.settled()
	if _, err := w.Cluster.Client.CoreV1().Namespaces().Get(t.Context(), shared, metav1.GetOptions{}); err != nil {
		t.Errorf("a Namespace in which another shard has an object: %v", err)
	}

	// Killed, the same shard goes on when its Lease has ended.
	second.Kill()
	w.edit("3")
	second.Start()
	w.settled()

	// One that hangs for longer than its Lease lasts has lost it, and does nothing more once
	// another has it. It goes on when that ends.
	second.Signal(syscall.SIGSTOP)
	other := w.agent("2/2", w.Cluster.Kubeconfig)
	w.edit("4")
	w.settled()
	second.Signal(syscall.SIGCONT)
	w.edit("5")
	w.settled()
	second.Kill()

	// With the hub away, agents of another number of shards change nothing as long as those of
	// the former hold their Leases.
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
	w.outdated(first) // somebody else may have had the shard
	w.passedOn(2)     // to those of three, of which some act by now
	other = w.again(other, "2/3")
	w.outdated(other)
	w.edit("6")
	w.settled()
	w.connected("1/3", "2/3", "3/3")

	// One that still runs and is evicted stops before another has what it had.
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
	w.settled()

	w.kept()
	w.witness()
}

// outdated waits until an agent has ended, since its store can't be gone by, and starts it
// with a new one.
func (w *site) outdated(a *env.Agent) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		if a.Running() {
			return errors.New("the agent goes on")
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

// halted waits until an agent says that it changes nothing, and why.
func (w *site) halted(a *env.Agent, why string) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		if said := w.status(a).Halt; !strings.Contains(said, why) {
			return fmt.Errorf("the agent is halted for %q, not for %q", said, why)
		}
		return nil
	})
}

// says waits until the location's status says that an agent is for other shards.
func (w *site) says(reason, shard string) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		said, err := env.TryKubectl(w.t, w.Root, "get", "location", location, "-o", `jsonpath={.status.conditions[?(@.type=="Connected")]}`)
		if err != nil {
			return err
		}
		if !strings.Contains(said, reason) || !strings.Contains(said, "--shards "+shard) {
			return errors.New(said)
		}
		return nil
	})
}

// connected waits until the location is connected by agents of exactly these shards.
func (w *site) connected(shards ...string) {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		said, err := env.TryKubectl(w.t, w.Root, "get", "location", location, "-o",
			`jsonpath={.status.conditions[?(@.type=="Connected")].status} {range .status.agent.shards[?(@.connected==true)]}{.shard} {end}`)
		if err != nil {
			return err
		}
		if want := "True " + strings.Join(shards, " "); strings.TrimSpace(said) != want {
			return fmt.Errorf("%q, want %q", said, want)
		}
		return nil
	})
	if said := w.orrery("location", "describe", location); len(shards) > 0 && !strings.Contains(said, "Shard "+shards[0]) {
		w.t.Error(said)
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

// passedOn waits until the Lease of a shard names no store, since what its last holder knew has others now.
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

// unrenewed waits until the Lease of a shard was not renewed for so long, or is not there.
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

// nameOfLease is what the Lease of a shard is called.
func (w *site) nameOfLease(number int) string {
	w.t.Helper()
	uid, err := w.LocationUID(location)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("orrery-%s.%s-%d", location, uid[:8], number)
}

// kept checks that nothing has been made anew.
func (w *site) kept() {
	w.t.Helper()
	for space, uid := range w.uids {
		m, err := w.Cluster.Client.CoreV1().ConfigMaps(string(space)).Get(w.t.Context(), "m", metav1.GetOptions{})
		if err != nil || m.UID != uid {
			w.t.Errorf("the object of %s was made anew: %v %v", space, m.UID, err)
		}
	}
}

// witness reads in the cluster's audit log which agent has written what: of each space exactly
// those that have come to have it, one after the other.
func (w *site) witness() {
	w.t.Helper()
	for _, space := range w.spaces {
		var seen []string
		for _, e := range w.Cluster.AllRequests(w.t, env.Filter{UserAgent: "orrery-agent/", Writes: true, Resource: "configmaps", Namespace: string(space)}) {
			if strings.Contains(e.RequestURI, "dryRun") || e.Response.Code >= 400 {
				continue
			}
			_, of, sharded := strings.Cut(e.UserAgent, "(shard ")
			of = strings.TrimSuffix(of, ")")
			if !sharded {
				of = "1/1"
			}
			shard, err := key.ParseShard(of)
			if err != nil || !shard.Has(space) {
				w.t.Errorf("%s of space %s was written by the agent of shard %s", e.RequestURI, space, of)
			}
			if by := of + " " + e.User.Username; len(seen) == 0 || seen[len(seen)-1] != by {
				seen = append(seen, by)
			}
		}
		sorted := slices.Clone(seen)
		slices.Sort(sorted)
		twice := len(slices.Compact(sorted)) != len(seen)-1 // the whole has it first and last
		if twice || len(seen) < 3 || seen[0] != seen[len(seen)-1] {
			w.t.Errorf("space %s was written by %v, in this order", space, seen)
		}
	}
}

// wait is how long a Lease lasts here.
const wait = 2 * time.Second
