package agent_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// inspect requests the live and the desired form of an object from the agent.
func (s *site) inspect(key string, all bool) wire.InspectResponse {
	s.t.Helper()
	answer, err := s.hub.Inspect(s.t.Context(), key, all)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// differs looks until both sides of an object have what they should, and at no time what
// they should not.
func (s *site) differs(key string, all bool, live, desired, never []string) wire.InspectResponse {
	s.t.Helper()
	var answer wire.InspectResponse
	env.Eventually(s.t, soon, func() error {
		answer = s.inspect(key, all)
		for _, word := range never {
			if strings.Contains(string(answer.Live)+string(answer.Desired)+answer.Message, word) {
				s.t.Fatalf("of %s it tells %q: %s %s %s", key, word, answer.Live, answer.Desired, answer.Message)
			}
		}
		lacks := func(text []byte, words []string) bool {
			return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(string(text), word) })
		}
		if answer.Reason != "" || lacks(answer.Live, live) || lacks(answer.Desired, desired) {
			return fmt.Errorf("%s: %s %s\nlive    %s\ndesired %s", key, answer.Reason, answer.Message, answer.Live, answer.Desired)
		}
		return nil
	})
	return answer
}

// alike waits until the live and the desired object do not differ.
func (s *site) alike(key string, all bool) {
	s.t.Helper()
	env.Eventually(s.t, soon, func() error {
		if a := s.inspect(key, all); a.Reason != "" || a.Live == nil || string(a.Live) != string(a.Desired) {
			return fmt.Errorf("%s: %s %s\nlive    %s\ndesired %s", key, a.Reason, a.Message, a.Live, a.Desired)
		}
		return nil
	})
}

// inspections checks that the agent returns the live object and the result of the next apply, also
// while it is paused. It returns no object that it does not own, and no value of a Secret.
func inspections(s *site) {
	t := s.t
	secret := "team/core/secrets/" + s.name + "/s"
	secrets, configMaps := s.client.CoreV1().Secrets(s.name), s.client.CoreV1().ConfigMaps(s.name)
	s.hub.Put(s.deploymentKey("d"), "uid-d", s.deployment("d", "nobody"))
	s.hub.Put(secret, "uid-s", fmt.Sprintf(`{"apiVersion":"v1","data":{"gone":"Z29uZS1zZWNyZXQ=","kept":"a2VwdC1zZWNyZXQ=","old":"b2xkLXNlY3JldA=="},"kind":"Secret","metadata":{"name":"s","namespace":%q}}`, s.name))
	for _, name := range []string{"a", "removed", "recreated"} {
		s.hub.Put(s.key(name), "uid-"+name, s.configMap(name, "1"))
	}
	s.start()
	keys := []string{s.deploymentKey("d"), secret, s.key("a"), s.key("removed"), s.key("recreated")}
	for _, key := range keys {
		s.reports(key, wire.Applied, "")
		s.alike(key, false) // quantities are spelled otherwise there, and much is defaulted
		s.alike(key, true)
	}
	if all, mine := s.inspect(keys[0], true), s.inspect(keys[0], false); !strings.Contains(string(all.Live), "terminationMessagePath") || strings.Contains(string(mine.Live), "terminationMessagePath") ||
		strings.Contains(string(all.Live), "managedFields") || strings.Contains(string(all.Live), `"status"`) {
		t.Errorf("all: %s\nmine: %s", all.Live, mine.Live)
	}

	s.hub.Set(func(s *wire.Settings) { s.Halt = "the location's mapping is Paused" })
	s.exists("foreign", nil)
	s.hub.Put(s.key("foreign"), "uid-foreign", s.configMap("foreign", "ours"))
	s.hub.Put(s.key("absent"), "uid-absent", s.configMap("absent", "1"))
	s.hub.Del(s.key("removed"), wire.Deleted)
	deployment := strings.ReplaceAll(s.deployment("d", "nobody"), `"replicas":2`, `"replicas":5`)
	s.hub.Put(s.deploymentKey("d"), "uid-d", deployment)
	env.Eventually(t, soon, func() error { // the pause comes before the rest
		if a := s.inspect(s.key("absent"), false); a.Desired == nil {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
	before := s.writes()
	edit := func(patch func(string) error, body string) {
		t.Helper()
		if err := patch(body); err != nil {
			t.Fatal(err)
		}
	}
	options := metav1.PatchOptions{FieldManager: "somebody"}
	edit(func(body string) error {
		_, err := secrets.Patch(t.Context(), "s", types.MergePatchType, []byte(body), options)
		return err
	}, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"last-applied-secret"}},"stringData":{"old":"new-secret","added":"added-secret"},"data":{"gone":null}}`)
	edit(func(body string) error {
		_, err := configMaps.Patch(t.Context(), "a", types.MergePatchType, []byte(body), options)
		return err
	}, `{"metadata":{"annotations":{"theirs":"x"}},"data":{"v":"tampered"}}`)
	edit(func(body string) error {
		_, err := s.client.AppsV1().Deployments(s.name).Patch(t.Context(), "d", types.StrategicMergePatchType, []byte(body), options)
		return err
	}, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"y"},{"name":"injected","image":"z"}]}}}}`)

	s.differs(s.key("a"), false, []string{`"v":"tampered"`}, []string{`"v":"1"`}, []string{"theirs"})
	s.differs(s.key("a"), true, []string{`"v":"tampered"`, `"theirs":"x"`}, []string{`"v":"1"`, `"theirs":"x"`}, nil)
	s.differs(s.deploymentKey("d"), false, []string{`"replicas":2`, `"image":"y"`}, []string{`"replicas":5`, `"image":"x"`}, []string{"injected"})
	s.differs(s.deploymentKey("d"), true, []string{`"injected"`}, []string{`"injected"`}, nil)
	s.differs(s.key("removed"), false, []string{`"v":"1"`}, nil, nil)
	if a := s.differs(s.key("absent"), false, nil, []string{`"v":"1"`}, []string{"orrery.dev/"}); a.Live != nil {
		t.Errorf("of what is not there it tells %s", a.Live)
	}
	never := []string{"secret", "c2VjcmV0", "bmV3LX", "Z29uZS", "a2VwdC", "b2xkLX", "YWRkZW"}
	for _, all := range []bool{false, true} {
		s.differs(secret, all, []string{`"kept":"***"`, `"old":"*** (before)"`}, []string{`"kept":"***"`, `"old":"*** (after)"`, `"gone":"***"`}, slices.Concat(never, []string{`"added"`}))
	}

	// The agent does not return an object of another user, whatever ownership metadata it has, nor one
	// that replaced an object of the agent.
	refused := func(key, reason string) {
		t.Helper()
		if a := s.inspect(key, true); a.Reason != reason || a.Live != nil || a.Desired != nil || strings.Contains(a.Message, "theirs") {
			t.Errorf("of %s it tells %+v", key, a)
		}
	}
	refused(s.key("foreign"), "Exists")
	there, err := s.get("a")
	if err != nil {
		t.Fatal(err)
	}
	marked := maps.Clone(there.Annotations)
	if err := configMaps.Delete(t.Context(), "recreated", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.exists("recreated", &metav1.ObjectMeta{Labels: there.Labels, Annotations: marked}) // the marks of another object
	refused(s.key("recreated"), "Exists")
	s.exists("unknown", nil)
	refused(s.key("unknown"), "NotPlaced")
	refused(strings.Replace(s.key("a"), "team/", "other/", 1), "OtherSpace")
	refused("team/core/secrets/kube-system/x", "NotPlaced")
	refused("team/core/configmaps/kube-system/kube-root-ca.crt", "NotPlaced")

	// What can't be applied is compared as it is written; a Secret's errors are not quoted.
	s.hub.Put(s.deploymentKey("d"), "uid-d", strings.ReplaceAll(deployment, `"app":"a"`, `"app":"b"`))
	if a := s.differs(s.deploymentKey("d"), true, []string{`"app":"a"`}, []string{`"app":"b"`}, nil); !strings.Contains(a.Message, "immutable") || strings.Contains(string(a.Live), "injected") {
		t.Errorf("of what is refused it says %q: %s", a.Message, a.Live)
	}
	s.hub.Put(secret, "uid-s", fmt.Sprintf(`{"apiVersion":"v1","data":{"k":"not base64: secret"},"kind":"Secret","metadata":{"name":"s","namespace":%q}}`, s.name))
	s.differs(secret, false, []string{"***"}, []string{`"k":"***"`}, append(never, "base64"))

	// The agent does not return an object above the size limit, and answers the next request.
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", strings.Repeat("x", 900<<10)))
	s.hub.Put(s.key("absent"), "uid-absent", s.configMap("absent", strings.Repeat("x", wire.MaxInspectResponse)))
	env.Eventually(t, soon, func() error {
		if a := s.inspect(s.key("absent"), false); a.Reason != "TooLarge" || a.Live != nil || a.Desired != nil {
			return fmt.Errorf("%s %s and %d bytes", a.Reason, a.Message, len(a.Desired))
		}
		return nil
	})
	s.differs(s.key("a"), false, []string{`"v":"tampered"`}, []string{"xxxx"}, nil)
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "1"))
	s.hub.Put(s.key("absent"), "uid-absent", s.configMap("absent", "1"))

	// Nothing of all that was a write, and the work goes on.
	if after := s.writes(); after != before {
		t.Errorf("halted, it has made %d writes", after-before)
	}
	s.hub.Put(s.deploymentKey("d"), "uid-d", s.deployment("d", "nobody"))
	s.hub.Set(func(s *wire.Settings) { s.Halt = "" })
	env.Eventually(t, soon, s.gone("removed"))
	s.alike(s.deploymentKey("d"), false)
	s.alike(s.key("absent"), false)
}

// exists creates a ConfigMap of another user.
func (s *site) exists(name string, like *metav1.ObjectMeta) {
	s.t.Helper()
	m := &corev1.ConfigMap{Data: map[string]string{"v": "theirs"}}
	if like != nil {
		m.ObjectMeta = *like
	}
	m.Name = name
	if _, err := s.client.CoreV1().ConfigMaps(s.name).Create(s.t.Context(), m, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
		s.t.Fatal(err)
	}
}

// writes counts the requests of the site's agent that have changed something.
func (s *site) writes() (n int) {
	s.t.Helper()
	for _, e := range s.c.AllRequests(s.t, env.Filter{UserAgent: "orrery-agent/" + s.name, Writes: true}) {
		if !strings.Contains(e.RequestURI, "dryRun=All") {
			n++
		}
	}
	return n
}
