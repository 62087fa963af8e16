package shards

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/test/env"
)

// TestSuspendedWhole: the agent of a whole location that hangs while two begin to share that
// goes on when they have it. It does not put back what it knew, and says why.
func TestSuspendedWhole(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	whole := w.agent("1/1", w.Cluster.AgentKubeconfig)
	w.settled()
	w.sent(whole)
	whole.Signal(syscall.SIGSTOP)
	w.orrery("location", "shards", location, "2")
	for _, shard := range []string{"1/2", "2/2"} {
		w.agent(shard, w.Cluster.AgentKubeconfig)
	}
	w.edit("2") // of which the whole knows nothing: to it that is drift
	w.settled()
	whole.Signal(syscall.SIGCONT)
	w.halted(whole, "the location is shared by shards at this cluster")
	w.edit("3")
	w.settled()
	w.kept()
	for _, space := range w.spaces {
		w.wholeFirst(space)
	}
}

// wholeFirst checks by the audit log that nobody but agents of shards has written the object of
// a space since the first of them did.
func (w *site) wholeFirst(space key.Space) {
	w.t.Helper()
	all := w.Cluster.Requests(w.t, env.Filter{UserAgent: "orrery-agent/", Writes: true, Resource: "configmaps", Namespace: string(space)})
	sharded := func(e env.AuditEvent) bool { return strings.Contains(e.UserAgent, "(shard ") }
	first := slices.IndexFunc(all, sharded)
	if first < 0 {
		w.t.Fatalf("no agent of a shard has written what space %s has", space)
	}
	for _, e := range all[first:] {
		if !sharded(e) && !strings.Contains(e.RequestURI, "dryRun") && e.Response.Code < 400 {
			w.t.Errorf("%s %s by %s, after %s", e.Verb, e.RequestURI, e.UserAgent, all[first].UserAgent)
		}
	}
}
