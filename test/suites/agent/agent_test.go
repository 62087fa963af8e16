// Package agent_test tests the agent against a real API server, with a stand-in hub that
// sends what each test needs.
package agent_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/cli/inprocess"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/protocol"
)

// soon is how long anything may take here on a busy machine.
const soon = env.Soon

var label = "orrery.dev/location"

// site is one location: a hub, an agent's data directory, and the cluster.
type site struct {
	t      *testing.T
	hub    *protocol.Hub
	join   wire.Join
	c      *env.Cluster
	client kubernetes.Interface
	name   string
	dir    string
	world  inprocess.World
	agent  *inprocess.Process
	// config is how the agent reaches the cluster; nil: as an administrator.
	config *rest.Config
}

func newSite(t *testing.T, c *env.Cluster, name string) *site {
	hub := protocol.NewHub(key.Location(name))
	s := &site{t: t, hub: hub, join: hub.Start(t), c: c, client: c.Client, name: name, dir: t.TempDir() + "/data"}
	t.Cleanup(func() {
		s.halt()
		for _, fault := range hub.Faults() {
			t.Errorf("the agent: %s", fault)
		}
	})
	return s
}

// start runs an agent in this process until halt.
func (s *site) start() {
	s.t.Helper()
	config := rest.CopyConfig(cmp.Or(s.config, s.c.Config))
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelDebug
	}
	var err error
	s.agent, err = s.world.StartAgent(s.t.Context(), agent.Config{
		Join: s.join, Target: config, DataDir: s.dir, Version: s.name, MutatedRetry: mutatedRetry,
		Logger: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// halt stops the agent, if it runs.
func (s *site) halt() {
	if s.agent == nil {
		return
	}
	if err := s.agent.Stop(); err != nil {
		s.t.Errorf("run the agent: %v", err)
	}
	s.agent = nil
}

func (s *site) key(name string) string {
	return "team/core/configmaps/" + s.name + "/" + name
}

// configMap is a ConfigMap of the site's namespace.
func (s *site) configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","data":{"v":%q},"kind":"ConfigMap","metadata":{"name":%q,"namespace":%q}}`, value, name, s.name)
}

func (s *site) get(name string) (*corev1.ConfigMap, error) {
	return s.client.CoreV1().ConfigMaps(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
}

// hasValue returns an error unless a ConfigMap in the cluster has a value.
func (s *site) hasValue(name, value string) func() error {
	return func() error {
		m, err := s.get(name)
		if err != nil {
			return err
		}
		if m.Data["v"] != value || len(m.Data) != 1 {
			return fmt.Errorf("%s has %v, want %q", name, m.Data, value)
		}
		if m.Labels[label] != s.name+".0a1b2c3d" {
			return fmt.Errorf("%s has labels %v", name, m.Labels)
		}
		return nil
	}
}

func (s *site) gone(name string) func() error {
	return func() error {
		switch _, err := s.get(name); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("%s is still there", name)
		}
	}
}

// reports waits until the agent reports an object with a state and a reason.
func (s *site) reports(key string, state wire.State, reason string) wire.Report {
	s.t.Helper()
	var r wire.Report
	env.Eventually(s.t, soon, func() error {
		var ok bool
		if r, ok = s.hub.Report(key); !ok || r.State != state || r.Reason != reason {
			return fmt.Errorf("report of %s: %+v", key, r)
		}
		return nil
	})
	return r
}

func TestAgent(t *testing.T) {
	c := env.StartCluster(t, "target", env.APIOnly())
	for _, test := range []struct {
		name string
		run  func(*site)
	}{
		{"lifecycle", lifecycle},
		{"drift", driftIsRepaired},
		{"foreign", foreignIsUntouched},
		{"offline", offline},
		{"custom", customResources},
		{"lost-store", lostStore},
		{"prune", pruneGuard},
		{"status", returnedStatus},
		{"refusal", refusals},
		{"annotations", annotationsTooLong},
		{"diagnosed", diagnosed},
		{"halt", halted},
		{"inspections", inspections},
		{"mutated", mutated},
		{"mutated-for-good", mutatedForGood},
		{"frozen", frozen},
		{"recreate-guard", recreateGuard},
		{"claims", claims},
		{"custom-fixed", customFixed},
		{"cascade", cascade},
		{"made-again", madeAgain},
		{"made-again-and-lost", madeAgainAndLost},
		{"upsync", upsync},
		{"outage", targetOutage},
		{"stale-defaults", staleDefaults},
		{"owned-value", ownedValue},
		{"duplicates", duplicates},
		{"ended-and-gone", endedAndGone},
		{"provided", provided},
		{"other-sources", otherSources},
		{"handed-over", handedToAutoscalers},
		{"rescoped", rescoped},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newSite(t, c, test.name)) })
	}
}

func lifecycle(s *site) {
	t := s.t
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "1"))
	s.start()
	env.Eventually(t, soon, s.hasValue("a", "1"))
	r := s.reports(s.key("a"), wire.Applied, "")
	if r.Digest != wire.SumOf([]byte(s.configMap("a", "1"))) || r.UID != "uid-a" {
		t.Errorf("report %+v", r)
	}
	m, err := s.get("a")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"orrery.dev/source-kind": "ConfigMap", "orrery.dev/source-namespace": s.name,
		"orrery.dev/source-name": "a", "orrery.dev/source-uid": "uid-a",
	}
	for k, v := range want {
		if m.Annotations[k] != v {
			t.Errorf("annotation %s is %q, want %q", k, m.Annotations[k], v)
		}
	}
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "2"))
	env.Eventually(t, soon, s.hasValue("a", "2"))
	if again, err := s.get("a"); err != nil || again.UID != m.UID {
		t.Errorf("the object was replaced: %v", err)
	}
	s.hub.Del(s.key("a"), wire.Deleted)
	env.Eventually(t, soon, s.gone("a"))
	env.Eventually(t, soon, func() error {
		if keys := s.hub.Reported(); len(keys) > 0 {
			return fmt.Errorf("still reported: %q", keys)
		}
		return nil
	})
	if _, err := s.client.CoreV1().Namespaces().Get(t.Context(), s.name, metav1.GetOptions{}); err != nil {
		t.Errorf("the implied namespace: %v", err)
	}
	s.exactly(map[string]int{"patch": 2, "delete": 1, "create": 1})
}

// exactly checks the writes of the site's agent.
func (s *site) exactly(want map[string]int) {
	s.t.Helper()
	env.Eventually(s.t, soon, func() error {
		got := map[string]int{}
		for _, e := range s.c.Requests(s.t, env.Filter{UserAgent: "orrery-agent/" + s.name, Writes: true}) {
			got[e.Verb]++
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("writes %v, want %v", got, want)
		}
		return nil
	})
}

func driftIsRepaired(s *site) {
	t := s.t
	maps := s.client.CoreV1().ConfigMaps(s.name)
	patch := func(body string) {
		t.Helper()
		if _, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "1"))
	s.start()
	env.Eventually(t, soon, s.hasValue("a", "1"))
	s.reports(s.key("a"), wire.Applied, "")

	patch(`{"data":{"v":"tampered"}}`)
	env.Eventually(t, soon, s.hasValue("a", "1"))
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, s.hasValue("a", "1"))
	patch(`{"metadata":{"labels":null,"annotations":null}}`)
	env.Eventually(t, soon, s.hasValue("a", "1"))

	// What another adds is not drift, and stays.
	patch(`{"metadata":{"annotations":{"other":"x"}}}`)
	env.Throughout(t, time.Second, func() error {
		m, err := s.get("a")
		if err == nil && m.Annotations["other"] != "x" {
			err = errors.New("an annotation of another was removed")
		}
		return err
	})
}

func foreignIsUntouched(s *site) {
	t := s.t
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	if _, err := s.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"v": "theirs"}}
	foreign, err := s.client.CoreV1().ConfigMaps(s.name).Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A copy of our labels is not ours either.
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "copy", Labels: map[string]string{
		label: s.name + ".0a1b2c3d", "orrery.dev/space": "team",
	}}}
	if _, err := s.client.CoreV1().ConfigMaps(s.name).Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "ours"))
	s.hub.Put(s.key("b"), "uid-b", s.configMap("b", "ours"))
	s.start()
	env.Eventually(t, soon, s.hasValue("b", "ours"))
	s.reports(s.key("a"), wire.InConflict, "Exists")
	s.hub.Del(s.key("a"), wire.Deleted)
	env.Eventually(t, soon, func() error {
		if _, ok := s.hub.Report(s.key("a")); ok {
			return errors.New("still reported")
		}
		return nil
	})
	if now, err := s.get("a"); err != nil || now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the foreign object changed: %v", err)
	}
	if _, err := s.get("copy"); err != nil {
		t.Errorf("the object with copied labels: %v", err)
	}
}

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},
"spec":{"group":"example.org","names":{"kind":"Widget","listKind":"WidgetList","plural":"widgets","singular":"widget"},"scope":"Namespaced",
"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":true}]}}`

func customResources(s *site) {
	t := s.t
	widget := `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w","namespace":"custom"},"spec":{"n":1}}`
	key, crdKey := "team/example.org/widgets/custom/w", "team/apiextensions.k8s.io/customresourcedefinitions/widgets.example.org"
	s.hub.Put(key, "uid-w", widget)
	s.start()
	s.reports(key, wire.Unsupported, "NoSuchResource")
	s.hub.Put(crdKey, "uid-crd", crd)
	s.reports(key, wire.Applied, "")

	// Both go at once: the definition waits for the resource.
	s.hub.Del(crdKey, wire.Deleted)
	s.hub.Del(key, wire.Deleted)
	env.Eventually(t, soon, func() error {
		if keys := s.hub.Reported(); len(keys) > 0 {
			return fmt.Errorf("still reported: %q", keys)
		}
		return nil
	})
}

func returnedStatus(s *site) {
	key := "team/core/namespaces/returned"
	s.hub.PutWith(key, "uid-n", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"returned"}}`, wire.Policy{ReturnStatus: true})
	s.start()
	s.reports(key, wire.Applied, "")
	env.Eventually(s.t, soon, func() error {
		if r, _ := s.hub.Report(key); string(r.Status) != `{"phase":"Active"}` {
			return fmt.Errorf("status %s", r.Status)
		}
		return nil
	})
}

func refusals(s *site) {
	bad := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x","namespace":%q},"spec":{"ports":[{"port":0}]}}`, s.name)
	unknown := fmt.Sprintf(`{"apiVersion":"v1","bogus":1,"kind":"ConfigMap","metadata":{"name":"u","namespace":%q}}`, s.name)
	other := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"someone-else"}}`
	s.hub.Put("team/core/services/"+s.name+"/x", "uid-x", bad)
	s.hub.Put(s.key("u"), "uid-u", unknown)
	s.hub.Put(s.key("m"), "uid-m", other)
	s.hub.Put(s.key("good"), "uid-g", s.configMap("good", "1"))
	s.start()
	s.reports(s.key("good"), wire.Applied, "")
	s.reports("team/core/services/"+s.name+"/x", wire.Failed, "Invalid")
	s.reports(s.key("u"), wire.Failed, "UnknownField")
	s.reports(s.key("m"), wire.Failed, "Malformed")
	s.hub.Put(s.key("u"), "uid-u", s.configMap("u", "1"))
	s.reports(s.key("u"), wire.Applied, "")
}
