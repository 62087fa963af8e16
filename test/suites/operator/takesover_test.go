package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// mark is the mark of a location.
func (s *site) mark(name string) string {
	s.t.Helper()
	uid, err := s.LocationUID(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return name + "." + uid[:8]
}

// marked returns an error unless ConfigMaps at the site are of one location alone.
func (s *site) marked(mark string, names ...string) func() error {
	return func() error {
		for _, name := range names {
			u, err := s.target().Get(s.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, f := range u.GetManagedFields() {
				if strings.HasPrefix(f.Manager, "orrery/") && f.Manager != "orrery/"+mark {
					return fmt.Errorf("%s has fields of %s, want %s", name, f.Manager, mark)
				}
			}
			if label := u.GetLabels()[v1alpha1.LocationLabel]; label != mark {
				return fmt.Errorf("%s is marked %s, want %s", name, label, mark)
			}
		}
		return nil
	}
}

// place makes the Placement select one location, or none.
func (s *site) place(location string) {
	s.t.Helper()
	env.Kubectl(s.t, s.file, "patch", "placement", "app", "--type=merge", "-p", `{"spec":{"locations":[{"names":["`+location+`"]}]}}`)
}

// isHalted waits until an agent reports that another location has taken over its objects.
func (s *site) isHalted(a *env.Agent, successor string) {
	s.t.Helper()
	s.Eventually("the former agent halts", func() error {
		out, err := env.Command{Binary: "orrery-agent", Args: []string{"status", "--data-dir", a.Dir}, Kubeconfig: s.Root}.Try(s.t)
		if err != nil {
			return err
		}
		if !strings.Contains(out, successor+" has taken over what this one has") {
			return errors.New(out)
		}
		return nil
	})
}

// pending waits until a number of removals is pending at a location.
func (s *site) pending(location string, want int64) (digest string) {
	s.t.Helper()
	s.Eventually(fmt.Sprintf("%d removals wait", want), func() error {
		var l v1alpha1.Location
		if err := s.read(location, &l); err != nil {
			return err
		}
		var now int64
		if l.Status.Agent != nil && l.Status.Agent.Prune != nil {
			now, digest = l.Status.Agent.Prune.Pending, l.Status.Agent.Prune.Digest
		}
		if now != want {
			return fmt.Errorf("%d wait: %+v", now, l.Status)
		}
		return nil
	})
	return digest
}

// TestTakesOver has a location removed and added again, with an agent that knows nothing,
// while the former one goes on at the same cluster.
func TestTakesOver(t *testing.T) {
	s := newSite(t)
	s.put("1", "a", "b", "c")
	s.Eventually("all are there", s.mine(3))
	before, former := s.uids("a", "b", "c"), s.mark(siteName)

	// A location cannot take over from an existing location, and invalid arguments are rejected.
	if out := env.OrreryFails(t, s.Root, "location", "add", "thief", "--takes-over", former); !strings.Contains(out, "the location edge exists") {
		t.Errorf("taking over from a location that exists: %s", out)
	}
	env.Orrery(t, s.Root, "location", "add", "thief")
	for _, bad := range []string{former, "edge", "edge.123", "Edge.01234567", "edge.0123456g", "a.b.01234567"} {
		if out, err := env.TryKubectl(t, s.Root, "patch", "location", "thief", "--type=merge", "-p", `{"spec":{"takesOver":["`+bad+`"]}}`); err == nil {
			t.Errorf("%q is taken over: %s", bad, out)
		}
		if bad != former {
			env.OrreryFails(t, s.Root, "location", "add", "other", "--takes-over", bad)
		}
	}
	if err := s.marked(former, "a", "b", "c")(); err != nil {
		t.Error(err)
	}

	out := env.Orrery(t, s.Root, "location", "remove", siteName)
	if !strings.Contains(out, "--takes-over "+former) {
		t.Errorf("it says %s", out)
	}
	s.place("nowhere")
	old := s.Agent
	token := strings.TrimSpace(env.Orrery(t, s.Root, "location", "add", siteName, "--takes-over", former, "--token-only"))
	if out := env.OrreryFails(t, s.Root, "location", "add", "other", "--takes-over", former); !strings.Contains(out, "another location takes it over") {
		t.Errorf("taking over what another does: %s", out)
	}
	s.Agent = env.StartAgent(t, "heir", token, s.Cluster.AgentKubeconfig)
	mark := s.mark(siteName)

	// Nothing is assigned: all is taken over, and all stays.
	s.pending(siteName, 3)
	s.Eventually("taken over", s.marked(mark, "a", "b", "c"))
	s.isHalted(old, mark)
	env.Throughout(t, observation, s.mine(3))
	old.Restart()
	s.isHalted(old, mark)

	// This location owns the objects that are assigned again, unchanged; the removal of the others waits.
	s.unassign("c")
	s.place(siteName)
	digest := s.pending(siteName, 1)
	s.put("2", "a")
	s.Eventually("changed", s.hasValue("a", "2"))
	if now := s.uids("a", "b", "c"); !slices.Equal(now, before) {
		t.Errorf("UIDs %q became %q", before, now)
	}
	s.quiet(mark, "a", "b", "c")
	if _, err := s.target().Patch(t.Context(), "b", types.MergePatchType, []byte(`{"data":{"v":"tampered"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("repaired", s.hasValue("b", "1"))
	env.Orrery(t, s.Root, "location", "confirm-prune", siteName, "--digest", digest)
	s.Eventually("confirmed, it goes", s.lacks("c"))
	env.Throughout(t, observation, s.lacks("c"))

	// It goes as anything does, and the former agent does not make it again.
	env.Kubectl(t, s.file, "delete", "placement", "app")
	s.Eventually("all is gone", s.mine(0))
	env.Throughout(t, observation, s.mine(0))
}

// quiet checks that some ConfigMaps are not written.
func (s *site) quiet(mark string, names ...string) {
	s.t.Helper()
	versions := func() (all []string) {
		for _, name := range names {
			u, err := s.target().Get(s.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, u.GetResourceVersion())
		}
		return all
	}
	s.Eventually("taken over", s.marked(mark, names...))
	before := versions()
	env.Throughout(s.t, observation, func() error {
		if now := versions(); !slices.Equal(now, before) {
			return fmt.Errorf("%q became %q", before, now)
		}
		return nil
	})
}

// TestTakesOverUnderAnotherName moves a location whose hub was lost to another hub under another name.
// No log proves the objects in the cluster, so the agent waits until a user accepts the new log.
func TestTakesOverUnderAnotherName(t *testing.T) {
	s := newSite(t)
	s.put("1", "a", "b")
	s.Eventually("all are there", s.mine(2))
	before, former := s.uids("a", "b"), s.mark(siteName)
	s.Hub.Kill()

	s.World = world.New(t)
	s.file = s.AddSpace(spaceName)
	s.space = world.Dynamic(t, s.Hub.PathConfig("spaces/"+spaceName))
	s.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: goods}}`)
	s.put("1", "a")
	s.apply(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: app}
spec:
  locations: [{names: [plant]}]
  downsync: [{labelSelectors: [{matchLabels: {what: app}}]}]
`)
	token := strings.TrimSpace(env.Orrery(t, s.Root, "location", "add", "plant", "--takes-over", former, "--token-only"))
	old := s.Agent
	s.Agent = env.StartAgent(t, "heir", token, s.Cluster.AgentKubeconfig)
	s.Eventually("it waits for proof", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: s.file, Args: []string{"why", "configmap/a", "-n", namespace, "--location", "plant"}}.Try(t)
		if err != nil {
			return err
		}
		if !strings.Contains(out, "LineageUnproven") {
			return errors.New(out)
		}
		return nil
	})
	env.Throughout(t, observation, s.marked(former, "a", "b"))
	env.Orrery(t, s.Root, "location", "accept", "plant")
	mark := s.mark("plant")
	s.Eventually("taken over", s.marked(mark, "a", "b"))
	digest := s.pending("plant", 1)
	s.isHalted(old, mark)
	if now := s.uids("a", "b"); !slices.Equal(now, before) {
		t.Errorf("UIDs %q became %q", before, now)
	}
	s.quiet(mark, "a", "b")
	env.Orrery(t, s.Root, "location", "confirm-prune", "plant", "--digest", digest)
	s.Eventually("confirmed, it goes", s.lacks("b"))
	if err := s.hasValue("a", "1")(); err != nil {
		t.Error(err)
	}
}
