package agent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// upsync checks that the agent reports upsynced and associated objects of a real cluster completely
// and in order, also of kinds that appear later. Each kind costs the cluster one list and one watch.
func upsync(s *site) {
	t, ns, deployment := s.t, s.name, s.deploymentKey("d")
	counts := &counting{counts: map[string]int{}}
	s.config = rest.CopyConfig(s.c.Config)
	s.config.Wrap(counts.wrap)
	s.hub.PutWith(deployment, "uid-d", s.deployment("d", "nobody"), wire.Policy{Associated: "core/events\ncore/pods"})
	s.hub.Set(func(set *wire.Settings) {
		set.Upsync = []wire.Upsync{
			{Space: "team", Group: "core", Resources: []string{"configmaps", "secrets"}, Namespaces: []string{ns}},
			{Space: "other", Group: "*", Resources: []string{"findings", "priorityclasses"}},
		}
		set.UpsyncObjects, set.UpsyncBytes = 1000, 1<<20
	})
	s.start()
	s.reports(deployment, wire.Applied, "")

	pod := s.ownedPod("d")
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: ns}, Reason: "Scheduled", LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: pod.Name, UID: pod.UID},
	}
	create(t, func() error {
		_, err := s.client.CoreV1().Events(ns).Create(t.Context(), event, metav1.CreateOptions{})
		return err
	})
	owned := "~owned:team/core/pods/" + ns + "/p"
	for _, line := range []string{owned, "~owned:team/core/events/" + ns + "/e"} {
		if r := s.reports(line, wire.Present, ""); r.Owner != "apps/deployments/"+ns+"/d" {
			t.Errorf("%s belongs to %q", line, r.Owner)
		}
	}
	if r, _ := s.hub.Report(owned); r.UID != string(pod.UID) || r.Health != wire.Progressing || !whole(r.Object, "v1", "Pod", "p") {
		t.Errorf("the Pod is reported as %+v: %s", r, r.Object)
	}

	forget := s.claimsAndSlices()

	configMaps := s.client.CoreV1().ConfigMaps(ns)
	s.exists("born", nil)
	line := "~born:team/core/configmaps/" + ns + "/born"
	s.reports(line, wire.Present, "")
	if _, err := configMaps.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "born"}, Data: map[string]string{"v": "edited"}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.shows(line, `"edited"`)

	// A kind comes, without anybody placing it, and one that is in no namespace is there.
	s.shows("~born:other/scheduling.k8s.io/priorityclasses/system-node-critical", `"kind":"PriorityClass"`)
	client, err := dynamic.NewForConfig(s.c.Config)
	create(t, func() error { return err })
	create(t, func() error {
		definition := strings.NewReplacer("widgets", "findings", "widget", "finding", "Widget", "Finding").Replace(crd)
		_, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
			Create(t.Context(), unstructuredOf(t, definition), metav1.CreateOptions{})
		return err
	})
	finding := unstructuredOf(t, fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Finding","metadata":{"name":"f","namespace":%q},"spec":{"n":7}}`, ns))
	findings := client.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "findings"}).Namespace(ns)
	env.Eventually(t, soon, func() error {
		_, err := findings.Create(t.Context(), finding, metav1.CreateOptions{})
		return err
	})
	s.shows("~born:other/example.org/findings/"+ns+"/f", `"n":7`)

	// While the agent is away, some go and some come.
	s.halt()
	create(t, func() error { return configMaps.Delete(t.Context(), "born", metav1.DeleteOptions{}) })
	create(t, func() error { return findings.Delete(t.Context(), "f", metav1.DeleteOptions{}) })
	s.exists("later", nil)
	s.start()
	s.reports("~born:team/core/configmaps/"+ns+"/later", wire.Present, "")
	s.dropsReports(line, "~born:other/example.org/findings/"+ns+"/f")
	s.reports(owned, wire.Present, "")

	// An object that is left to the location remains, without ownership metadata, and is upsynced.
	s.hub.Write(wire.Frame{Hold: &wire.Hold{Key: s.key("mine"), UID: "uid-mine", Digest: wire.SumOf([]byte("x")), Reason: v1alpha1.ReasonUpsynced, Error: "asked for"}})
	s.hub.Put(s.key("placed"), "uid-placed", s.configMap("placed", "1"))
	s.reports(s.key("placed"), wire.Applied, "")
	s.hub.Write(wire.Frame{Hold: &wire.Hold{Key: s.key("placed"), UID: "uid-placed", Digest: wire.SumOf([]byte("x")), Reason: v1alpha1.ReasonUpsynced, Error: "asked for"}})
	s.shows("~born:team/core/configmaps/"+ns+"/placed", `"v":"1"`)
	s.dropsReports(s.key("placed"))
	if m, err := s.get("placed"); err != nil || m.Labels[label] != "" {
		t.Errorf("what is left to the location is %+v, %v", m, err)
	}

	// The settings request no upsync any more.
	s.hub.Set(func(set *wire.Settings) { set.Upsync = nil })
	s.hub.PutWith(deployment, "uid-d", s.deployment("d", "nobody"), wire.Policy{})
	forget()
	env.Eventually(t, soon, func() error {
		if i := slices.IndexFunc(s.hub.Reported(), func(k string) bool { return strings.HasPrefix(k, "~") }); i >= 0 {
			return fmt.Errorf("%q is still reported", s.hub.Reported()[i])
		}
		return nil
	})
	counts.log(t)
}

// claimsAndSlices shows what a StatefulSet's claims and a Service's EndpointSlices are reported as:
// they have the health of their kinds, and no EndpointSlice has a status. forget ends that
// anybody asks for them.
func (s *site) claimsAndSlices() (forget func()) {
	t, ns, yes := s.t, s.name, true
	t.Helper()
	set, service := "team/apps/statefulsets/"+ns+"/db", "team/core/services/"+ns+"/web"
	place := func(claims, slices wire.Policy) {
		s.hub.PutWith(set, "uid-db", fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":%q},"spec":{"replicas":1,"serviceName":"db","selector":{"matchLabels":{"app":"db"}},
			"template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"c","image":"i"}]}},
			"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}`, ns), claims)
		s.hub.PutWith(service, "uid-web", fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":%q},"spec":{"ports":[{"port":80}]}}`, ns), slices)
	}
	place(wire.Policy{Associated: "core/persistentvolumeclaims"}, wire.Policy{Associated: "discovery.k8s.io/endpointslices"})
	s.reports(set, wire.Applied, "")
	s.reports(service, wire.Applied, "")
	for _, name := range []string{"data-db-0", "data-other-0"} {
		create(t, func() error {
			_, err := s.client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}, metav1.CreateOptions{})
			return err
		})
	}
	web, err := s.client.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
	create(t, func() error { return err })
	create(t, func() error {
		_, err := s.client.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "web-x", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Service", Name: "web", UID: web.UID, Controller: &yes},
			}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}, metav1.CreateOptions{})
		return err
	})
	for line, want := range map[string]wire.Report{
		"~owned:team/core/persistentvolumeclaims/" + ns + "/data-db-0": {Owner: "apps/statefulsets/" + ns + "/db", Health: wire.Progressing},
		"~owned:team/discovery.k8s.io/endpointslices/" + ns + "/web-x": {Owner: "core/services/" + ns + "/web", Health: wire.Healthy},
	} {
		if r := s.reports(line, wire.Present, ""); r.Owner != want.Owner || r.Health != want.Health {
			t.Errorf("%s is reported as %+v", line, r)
		}
	}
	if r, ok := s.hub.Report("~owned:team/core/persistentvolumeclaims/" + ns + "/data-other-0"); ok {
		t.Errorf("another's claim is reported as %+v", r)
	}
	return func() { place(wire.Policy{}, wire.Policy{}) }
}

// ownedPod is a Pod of a ReplicaSet of a Deployment.
func (s *site) ownedPod(deployment string) *corev1.Pod {
	t, ns := s.t, s.name
	t.Helper()
	yes := true
	owner := func(kind, version, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: &yes}}
	}
	d, err := s.client.AppsV1().Deployments(ns).Get(t.Context(), deployment, metav1.GetOptions{})
	create(t, func() error { return err })
	rs, err := s.client.AppsV1().ReplicaSets(ns).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "rs", Namespace: ns, OwnerReferences: owner("Deployment", "apps/v1", d.Name, d.UID)},
		Spec:       appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
	}, metav1.CreateOptions{})
	create(t, func() error { return err })
	_, err = s.client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	create(t, func() error { return err })
	pod, err := s.client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: ns, Labels: d.Spec.Template.Labels, OwnerReferences: owner("ReplicaSet", "apps/v1", "rs", rs.UID)},
		Spec:       d.Spec.Template.Spec,
	}, metav1.CreateOptions{})
	create(t, func() error { return err })
	return pod
}

func unstructuredOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func create(t *testing.T, do func() error) {
	t.Helper()
	if err := do(); err != nil {
		t.Fatal(err)
	}
}

// whole reports whether an object has the expected type and name.
func whole(object json.RawMessage, version, kind, name string) bool {
	var o struct {
		APIVersion, Kind string
		Metadata         metav1.ObjectMeta
		Spec             map[string]any
	}
	return json.Unmarshal(object, &o) == nil && o.APIVersion == version && o.Kind == kind && o.Metadata.Name == name &&
		o.Metadata.ManagedFields == nil && len(o.Spec) > 0
}

// shows waits until a line's object has a text.
func (s *site) shows(line, text string) {
	s.t.Helper()
	env.Eventually(s.t, patient, func() error {
		if r, ok := s.hub.Report(line); !ok || !strings.Contains(string(r.Object), text) {
			return fmt.Errorf("%s is %+v: %s", line, r, r.Object)
		}
		return nil
	})
}

// dropsReports waits until some lines are not reported any more.
func (s *site) dropsReports(lines ...string) {
	s.t.Helper()
	env.Eventually(s.t, patient, func() error {
		for _, line := range lines {
			if r, ok := s.hub.Report(line); ok {
				return fmt.Errorf("%s is still %+v", line, r)
			}
		}
		return nil
	})
}

// counting counts requests.
type counting struct {
	next   http.RoundTripper
	mu     sync.Mutex
	counts map[string]int
}

func (c *counting) wrap(next http.RoundTripper) http.RoundTripper {
	c.next = next
	return c
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	what := r.Method + " " + r.URL.Path
	if r.URL.Query().Get("watch") != "" {
		what = "WATCH " + r.URL.Path
	}
	c.counts[what]++
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}

func (c *counting) log(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, n := range c.counts {
		t.Log(what, n)
	}
}
