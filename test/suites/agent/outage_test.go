package agent_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

func offline(s *site) {
	t := s.t
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "1"))
	s.hub.Put(s.key("b"), "uid-b", s.configMap("b", "1"))
	s.start()
	env.Eventually(t, soon, s.hasValue("a", "1"))
	s.reports(s.key("a"), wire.Applied, "")
	s.reports(s.key("b"), wire.Applied, "")
	s.halt()
	s.hub.HangUp()
	away := s.join.Hub
	s.join.Hub = "https://127.0.0.1:1"
	maps := s.client.CoreV1().ConfigMaps(s.name)
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.start()
	env.Eventually(t, soon, s.hasValue("a", "1"))
	if err := maps.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, s.hasValue("b", "1"))
	s.halt()

	// The hub is back: the deletion that happened meanwhile is applied.
	s.join.Hub = away
	s.hub.Del(s.key("a"), wire.Unassigned)
	s.start()
	env.Eventually(t, soon, s.gone("a"))
	if err := s.hasValue("b", "1")(); err != nil {
		t.Error(err)
	}
	if n := s.hub.Calls(route.Walk); n > 1 {
		t.Errorf("%d walks: the agent should have resumed", n)
	}
}

func lostStore(s *site) {
	t := s.t
	for _, name := range []string{"a", "b", "c"} {
		s.hub.Put(s.key(name), "uid-"+name, s.configMap(name, "1"))
	}
	s.start()
	for _, name := range []string{"a", "b", "c"} {
		s.reports(s.key(name), wire.Applied, "")
	}
	before, err := s.get("a")
	if err != nil {
		t.Fatal(err)
	}
	s.halt()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	s.hub.Del(s.key("b"), wire.Deleted)
	s.hub.Put(s.key("c"), "uid-c", s.configMap("c", "2"))
	s.start()
	env.Eventually(t, soon, s.hasValue("c", "2"))
	env.Eventually(t, soon, s.gone("b"))
	env.Eventually(t, soon, func() error {
		if keys := s.hub.Reported(); len(keys) != 2 {
			return fmt.Errorf("reported: %q", keys)
		}
		return nil
	})
	// Of what did not change only the place in the log is written, as a fetch delivers it.
	after, err := s.get("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*corev1.ConfigMap{before, after} {
		delete(m.Annotations, v1alpha1.LogAnnotation)
		m.ResourceVersion, m.ManagedFields = "", nil
	}
	if !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("an object that did not change was written: it is %+v, was %+v", after, before)
	}
}

func pruneGuard(s *site) {
	const many, free = 60, 50
	for i := range many {
		name := fmt.Sprintf("o%d", i)
		s.hub.Put(s.key(name), "uid-"+name, s.configMap(name, "1"))
	}
	s.start()
	count := func() (n int) {
		l, err := s.client.CoreV1().ConfigMaps(s.name).List(s.t.Context(), metav1.ListOptions{LabelSelector: label})
		if err != nil {
			s.t.Fatal(err)
		}
		return len(l.Items)
	}
	is := func(want int) func() error {
		return func() error {
			if n := count(); n != want {
				return fmt.Errorf("%d objects, want %d", n, want)
			}
			return nil
		}
	}
	env.Eventually(s.t, soon, is(many))
	for i := range many {
		s.reports(s.key(fmt.Sprintf("o%d", i)), wire.Applied, "")
	}
	for i := range many {
		s.hub.Del(s.key(fmt.Sprintf("o%d", i)), wire.Unassigned)
	}
	env.Eventually(s.t, soon, is(many-free))
	env.Throughout(s.t, time.Second, is(many-free))
	guarded := ""
	for _, k := range s.hub.Reported() {
		s.reports(k, wire.Removing, "PruneGuard")
		guarded = k
	}
	// A removal that is moot no longer waits.
	name := guarded[strings.LastIndex(guarded, "/")+1:]
	s.hub.Put(guarded, "uid-"+name, s.configMap(name, "1"))
	s.reports(guarded, wire.Applied, "")
	// A user's own deletion is not guarded.
	s.hub.Del(guarded, wire.Deleted)
	env.Eventually(s.t, soon, is(many-free-1))
}

func halted(s *site) {
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "1"))
	s.start()
	s.reports(s.key("a"), wire.Applied, "")
	s.hub.Set(func(now *wire.Settings) { now.Halt = "the mapping is paused" })
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "2"))
	env.Throughout(s.t, time.Second, s.hasValue("a", "1"))
	s.hub.Set(func(now *wire.Settings) { now.Halt = "" })
	env.Eventually(s.t, soon, s.hasValue("a", "2"))
}

func targetOutage(s *site) {
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "1"))
	s.start()
	s.reports(s.key("a"), wire.Applied, "")
	s.c.KillAPIServer()
	s.hub.Put(s.key("b"), "uid-b", s.configMap("b", "1"))
	s.hub.Del(s.key("a"), wire.Deleted)
	s.c.StartAPIServer()
	env.Eventually(s.t, soon, s.hasValue("b", "1"))
	env.Eventually(s.t, soon, s.gone("a"))
}
