package operator

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

var widgets = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}

// TestOperator takes one location through everything that an operator does about it.
func TestOperator(t *testing.T) {
	s := newSite(t)
	for _, step := range []struct {
		name string
		run  func(*site)
	}{
		{"the agent says how it is", announced},
		{"a kind comes, with a smaller schema", incompatible},
		{"an operator halts a location", halted},
		{"the target is away", targetAway},
		{"too many removals wait", guarded},
		{"the hub's log is restored", restored},
		{"the token is revoked", revoked},
		{"the location is made again", madeAgain},
		{"the location is purged", purged},
	} {
		if !t.Run(step.name, func(t *testing.T) { s.t, s.T = t, t; step.run(s) }) {
			return
		}
	}
}

func announced(s *site) {
	s.put("1", "a", "b")
	var a *v1alpha1.AgentStatus
	s.Eventually("the agent has said how it is", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		if a = l.Status.Agent; a == nil || a.APIsDigest == "" {
			return fmt.Errorf("it said %+v", a)
		}
		return nil
	})
	a = s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied").Status.Agent
	if !strings.HasPrefix(a.KubernetesVersion, "v1.") || a.LogIdentity != "Proven" || a.Halted != "" || a.Awaits != "" {
		s.t.Errorf("the agent says %+v", a)
	}
	s.hasCondition(v1alpha1.ConditionEnrolled, metav1.ConditionTrue, "Joined")
	s.hasCondition(v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	s.hasCondition(v1alpha1.ConditionCompatible, metav1.ConditionTrue, "Protocol")
	// While nothing changes, the Location is not written.
	before, since := s.location().ResourceVersion, time.Now()
	s.Eventually("the Location comes to rest", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		if now := l.ResourceVersion; now != before {
			before, since = now, time.Now()
		}
		if time.Since(since) < 2*observation {
			return fmt.Errorf("the Location is at revision %s", before)
		}
		return nil
	})
}

func incompatible(s *site) {
	t := s.t
	crd, err := s.space.Resource(world.CRDs).Create(t.Context(), definition("size", "color"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	env.Kubectl(t, s.file, "wait", "--for=condition=Established", "crd/"+crd.GetName(), "--timeout="+world.Soon.String())
	s.apply(widget("size: large"))
	s.reports("Unsupported")
	served := s.location().Status.Agent.APIsDigest
	if _, err := s.Client.Resource(world.CRDs).Create(t.Context(), definition("size"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.reports("Applied")
	s.Eventually("another digest of what is served", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		if now := l.Status.Agent.APIsDigest; now == served {
			return fmt.Errorf("still %q", now)
		}
		return nil
	})
	good, err := s.Get(t, widgets, namespace, "w")
	if err != nil {
		t.Fatal(err)
	}
	// Both fields at once: the one that the location knows must not change either.
	s.apply(widget("size: small, color: red"))
	s.reports("UnknownField")
	s.reports("color")
	now, err := s.Get(t, widgets, namespace, "w")
	if err != nil || now.GetResourceVersion() != good.GetResourceVersion() {
		t.Errorf("the last good object was touched: %v, %v", now, err)
	}
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "Failed")
	s.apply(widget("size: small"))
	s.reports("Applied")
	env.Kubectl(t, s.file, "delete", "-n", namespace, "widget", "w")
}

// unrepaired tampers, and checks that nothing is repaired.
func (s *site) unrepaired() {
	s.t.Helper()
	if _, err := s.target().Patch(s.t.Context(), "a", types.MergePatchType, []byte(`{"data":{"v":"tampered"}}`), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
	env.Throughout(s.t, observation, s.hasValue("a", "tampered"))
}

func halted(s *site) {
	env.Orrery(s.t, s.Root, "location", "pause", siteName)
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "Halted")
	s.unrepaired()
	env.Orrery(s.t, s.Root, "location", "resume", siteName)
	s.Eventually("repaired", s.hasValue("a", "1"))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")

	conditions := s.location().Status.Conditions
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionCompatible })
	set := func(status, reason string) {
		s.t.Helper()
		env.Kubectl(s.t, s.Root, "patch", "location", siteName, "--subresource=status", "--type=json", "-p", fmt.Sprintf(
			`[{"op":"test","path":"/status/conditions/%d/type","value":"Compatible"},{"op":"replace","path":"/status/conditions/%d/status","value":%q},`+
				`{"op":"replace","path":"/status/conditions/%d/reason","value":%q}]`, i, i, status, i, reason))
	}
	set("False", "Upgrade")
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "Halted")
	s.unrepaired()
	set("True", "Upgraded")
	s.Eventually("repaired", s.hasValue("a", "1"))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
}

func targetAway(s *site) {
	s.Cluster.KillAPIServer()
	l := s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "Halted")
	if !strings.Contains(l.Status.Agent.Halted, "127.0.0.1") {
		s.t.Errorf("halted: %q", l.Status.Agent.Halted)
	}
	s.Cluster.StartAPIServer()
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
}

func guarded(s *site) {
	t := s.t
	var names []string
	for i := range many {
		names = append(names, fmt.Sprintf("o%d", i))
	}
	s.put("1", names...)
	s.Eventually("all are there", s.mine(many+2))
	s.unassign(names...)
	s.Eventually("some go", s.mine(many-free+2))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "PruneGuard")
	s.Eventually("the others wait", func() error { // they are taken away one by one
		l, err := s.described()
		if err != nil {
			return err
		}
		if p := l.Status.Agent.Prune; p == nil || p.Pending != many-free || len(p.Objects) != 10 || len(p.Spaces) != 1 {
			return fmt.Errorf("pending %+v", p)
		}
		return nil
	})
	out, err := env.Command{Binary: "orrery", Kubeconfig: s.Root, Args: []string{"location", "confirm-prune", siteName}}.Try(t)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("without a digest: %v", err)
	}
	command := regexp.MustCompile(`orrery (location confirm-prune edge --digest [0-9a-f]+)`).FindStringSubmatch(out)
	if command == nil {
		t.Fatalf("shown: %s", out)
	}
	env.OrreryFails(t, s.Root, "location", "confirm-prune", siteName, "--digest", "0123456789abcdef")
	env.Throughout(t, observation, s.mine(many-free+2))
	env.Orrery(t, s.Root, strings.Fields(command[1])...)
	s.Eventually("confirmed ones go", s.mine(2))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")

	// A Placement's owner confirms those of the space. One is moot again before that.
	s.put("1", "p", "q", "r")
	s.Eventually("more are there", s.mine(5))
	s.unassign("p", "q", "r")
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "PruneGuard")
	s.put("2", "r")
	s.Eventually("moot", s.hasValue("r", "2"))
	var digest string
	s.Eventually("two wait", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		p := l.Status.Agent.Prune
		if p == nil || p.Pending != 2 {
			return fmt.Errorf("pending %+v", p)
		}
		digest = p.Spaces[0].Digest
		return nil
	})
	env.Kubectl(t, s.file, "annotate", "placement", "app", v1alpha1.ConfirmPruneAnnotation+"="+digest)
	s.Eventually("confirmed ones go", s.mine(3))
	env.OrreryFails(t, s.Root, "location", "confirm-prune", siteName)
}

func restored(s *site) {
	t := s.t
	s.put("1", "kept", "changed", "deleted")
	s.Eventually("there", s.mine(6))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
	s.Hub.Stop()
	copied := s.Hub.Dir + ".copy"
	if err := os.CopyFS(copied, os.DirFS(s.Hub.Dir)); err != nil {
		t.Fatal(err)
	}
	s.Hub.Start()
	s.put("2", "changed", "new")
	env.Kubectl(t, s.file, "delete", "configmap", "-n", namespace, "deleted")
	s.Eventually("the new object is at the site", s.hasValue("new", "2"))
	s.Eventually("the deleted is gone", s.lacks("deleted"))
	before := s.uids("a", "kept", "changed", "new")

	s.Hub.Stop()
	if err := os.RemoveAll(s.Hub.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied, s.Hub.Dir); err != nil {
		t.Fatal(err)
	}
	s.Hub.Start()
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "LineageUnproven")
	s.unproven(2)
	s.Eventually("the object that only the copy has is created", s.hasValue("deleted", "1"))
	env.Throughout(t, observation, s.hasValue("changed", "2"))
	env.Throughout(t, observation, s.hasValue("new", "2"))

	env.Orrery(t, s.Root, "location", "accept", siteName)
	s.Eventually("the change is reverted", s.hasValue("changed", "1"))
	// It is a removal by a walk, of which there were too many in the last minutes.
	p := s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "PruneGuard").Status.Agent.Prune
	if len(p.Objects) != 1 || !strings.HasSuffix(p.Objects[0], "/new") {
		t.Errorf("pending %+v", p)
	}
	env.Orrery(t, s.Root, "location", "confirm-prune", siteName, "--digest", p.Digest)
	s.Eventually("the new one goes", s.lacks("new"))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
	if now := s.uids("a", "kept", "changed"); !slices.Equal(now, before[:3]) {
		t.Errorf("UIDs %q became %q", before[:3], now)
	}
	if msg := env.OrreryFails(t, s.Root, "location", "accept", siteName); !strings.Contains(msg, "nothing to accept") {
		t.Errorf("accept again: %s", msg)
	}
}

func revoked(s *site) {
	t := s.t
	env.Orrery(t, s.Root, "location", "revoke", siteName)
	s.hasCondition(v1alpha1.ConditionEnrolled, metav1.ConditionFalse, v1alpha1.ReasonRevoked)
	token := s.Token(siteName)
	s.Hub.Flags("--heartbeat", "5s", "--disconnected-after", "5s") // which are to be waited for
	s.Hub.Restart()
	s.hasCondition(v1alpha1.ConditionConnected, metav1.ConditionFalse, "Disconnected")
	s.Eventually("all is stale", func() error { // it is counted after that
		l, err := s.described()
		if err != nil {
			return err
		}
		if l.Status.Stale != l.Status.Assigned || l.Status.Stale == 0 {
			return fmt.Errorf("%d of %d are stale", l.Status.Stale, l.Status.Assigned)
		}
		return nil
	})
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionUnknown, v1alpha1.ReasonRevoked)
	s.put("9", "a")
	if err := s.target().Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("repaired without a hub", s.hasValue("kept", "1"))
	env.Throughout(t, observation, s.hasValue("a", "1"))
	s.Agent.Stop()
	s.Agent.Start("--join", token)
	s.Eventually("the agent is back", s.hasValue("a", "9"))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
	s.Eventually("nothing is stale", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		if l.Status.Stale != 0 {
			return fmt.Errorf("still stale: %+v", l.Status.Counts)
		}
		return nil
	})
}

func madeAgain(s *site) {
	t := s.t
	before := s.uids("a", "kept")
	env.Orrery(t, s.Root, "location", "remove", siteName)
	if _, err := s.target().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"v":"tampered"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("a removed location goes on", s.hasValue("a", "9"))
	env.Throughout(t, observation, s.hasValue("kept", "1"))

	token := strings.TrimSpace(env.Orrery(t, s.Root, "location", "add", siteName, "--token-only"))
	s.Agent.Stop()
	s.Agent.Start("--join", token)
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "LineageUnproven")
	env.Orrery(t, s.Root, "location", "accept", siteName)
	l := s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
	mark := siteName + "." + string(l.UID)[:8]
	for _, name := range []string{"a", "kept"} {
		s.Eventually("new marks on "+name, func() error {
			u, err := s.target().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			managers := map[string]bool{}
			for _, f := range u.GetManagedFields() {
				managers[f.Manager] = true
			}
			if len(managers) != 1 || !managers["orrery/"+mark] || u.GetLabels()[v1alpha1.LocationLabel] != mark {
				return fmt.Errorf("label %q, managers %v, want %q", u.GetLabels()[v1alpha1.LocationLabel], managers, mark)
			}
			return nil
		})
	}
	if now := s.uids("a", "kept"); !slices.Equal(now, before) {
		t.Errorf("UIDs %q became %q", before, now)
	}
}

func purged(s *site) {
	t := s.t
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "theirs"}, "data": map[string]any{"v": "x"},
	}}
	if _, err := s.target().Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// What the agent knows is lost, too: it has to find what it made.
	s.Agent.Kill()
	if err := os.Remove(s.Agent.Dir + "/agent.db"); err != nil {
		t.Fatal(err)
	}
	s.Agent.Start()
	out := env.Orrery(t, s.Root, "location", "remove", siteName, "--purge", "--timeout", world.Soon.String())
	if !strings.Contains(out, "everything that Orrery made at its cluster is gone") {
		t.Errorf("it says %s", out)
	}
	if err := s.mine(0)(); err != nil {
		t.Error(err)
	}
	if err := s.hasValue("theirs", "x")(); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t, world.Namespaces, "", namespace); err != nil {
		t.Errorf("the implied namespace: %v", err)
	}
	env.OrreryFails(t, s.Root, "location", "describe", siteName)
	env.Throughout(t, observation, s.mine(0))
}
