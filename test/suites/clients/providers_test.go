package clients

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"orrery.dev/orrery/examples/clusters"
	"orrery.dev/orrery/examples/provider"
	"orrery.dev/orrery/examples/providerviews"
	"orrery.dev/orrery/test/support/env"
)

// TestProviders is the story of an API that a platform offers to three spaces, and that two
// providers serve with stock controllers, each those clusters that are of its class, through
// a balancer that terminates TLS.
func TestProviders(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, true)
	ctrl.SetLogger(logr.Discard())
	m := newMarket(t, "shop", "bank", "labs")
	m.apply(t, "platform", "grants.yaml")
	early := m.informs(t)

	m.apply(t, "platform", "crd.yaml", "export.yaml", "view.yaml")
	m.offersWhileThereIsNothing(t)
	m.provides(t, "a", provider.New)
	m.provides(t, "b", providerviews.New)
	for _, s := range []string{"shop", "bank", "labs"} {
		m.apply(t, s, "binding.yaml")
		m.bound(t, s, "True Served")
	}
	m.apply(t, "shop", "cluster.yaml")
	m.asks(t, "bank", "main", "b")
	m.asks(t, "labs", "main", "a")
	m.asks(t, "labs", "other", "b")

	t.Run("each provider serves its own", func(t *testing.T) { m.serves(t, early) })
	t.Run("kubectl follows a slice", m.kubectlFollows)
	t.Run("a class stays", m.classStays)
	t.Run("moved by deletion and creation", m.moves)
	t.Run("given out of the rest", m.gives)
	t.Run("a claim is taken back", m.rejects)
	t.Run("nothing foreign is reached", m.foreign)
	t.Run("a grant is taken back", m.revokes)
	t.Run("the export goes and comes back", func(t *testing.T) { m.leaves(t, early) })
}

// early is an informer of provider b, who has had it since before there was anything.
type early struct {
	log      traffic
	informer cache.SharedIndexInformer
}

// informs starts it, and waits until it has been answered that there is no such slice.
func (m *market) informs(t *testing.T) *early {
	t.Helper()
	e := &early{}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(e.log.of(m.sliced(t, "b"))), 0)
	e.informer = factory.ForResource(clusterResources).Informer()
	stop := start(t, factory.Start)
	t.Cleanup(func() { stop(); factory.Shutdown() })
	env.Eventually(t, soon, func() error {
		if _, asked := e.log.any(clusterResources.Resource, "sendInitialEvents=true"); !asked {
			return fmt.Errorf("the informer has not asked for a streaming list")
		}
		return nil
	})
	if e.informer.HasSynced() {
		t.Fatal("the informer is synced before there is anything")
	}
	return e
}

// has waits until the informer has exactly these clusters.
func (e *early) has(t *testing.T, want ...string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		got := []string{}
		for _, o := range e.informer.GetStore().List() {
			m, err := meta.Accessor(o)
			if err != nil {
				return err
			}
			got = append(got, m.GetNamespace()+"/"+m.GetName())
		}
		if slices.Sort(got); !e.informer.HasSynced() || !slices.Equal(got, want) {
			return fmt.Errorf("the informer has %q, want %q", got, want)
		}
		return nil
	})
}

// inSlice are arguments of kubectl for a slice, through the balancer.
func (m *market) inSlice(class string, args ...string) []string {
	return append([]string{"--server=https://" + m.front.Address + slicePath(class)}, args...)
}

// offersWhileThereIsNothing: discovery of a slice that has nothing says what can be in it.
func (m *market) offersWhileThereIsNothing(t *testing.T) {
	t.Helper()
	var out string
	env.Eventually(t, soon, func() (err error) { // the export and the view are told apart from their being applied
		out, err = env.TryKubectl(t, m.files["provider-a"], m.inSlice("a", "api-resources", "--no-headers", "-o", "name")...)
		return err
	})
	for _, want := range []string{"kubernetesclusters.clusters.example.org", "secrets"} {
		if !slices.Contains(strings.Fields(out), want) {
			t.Errorf("the slice has no %s: %s", want, out)
		}
	}
	if strings.Contains(out, "configmaps") {
		t.Errorf("the slice has what is not claimed: %s", out)
	}
}

// serves: all clusters are served, by whom their class says, also for who began to follow the
// slice before there was anything; and the platform sees how many there are.
func (m *market) serves(t *testing.T, early *early) {
	m.served(t, "shop", "main", "a")
	m.served(t, "bank", "main", "b")
	m.served(t, "labs", "main", "a")
	m.served(t, "labs", "other", "b")
	early.has(t, "bank--default/main", "labs--default/other")
	env.Eventually(t, soon, func() error {
		out, err := env.TryKubectl(t, m.files["platform"], "get", "apiexportviews/classes", "apiexports/clusters", "-o",
			"jsonpath={range .items[*]}{.status.bindings}{range .status.endpoints[*]}{.value}={.objects} {end}{end}")
		if err != nil {
			return err
		}
		if want := "a=4 b=4 3"; out != want {
			return fmt.Errorf("the status says %q, want %q", out, want)
		}
		return nil
	})
}

// kubectlFollows: kubectl lists a slice, and watches it.
func (m *market) kubectlFollows(t *testing.T) {
	watch := env.StartKubectl(t, m.files["provider-a"], m.inSlice("a", "get", "kc", "-A", "--watch", "--no-headers")...)
	env.Eventually(t, soon, func() error {
		out := watch.Stdout()
		for _, want := range []string{"shop--default", "labs--default", "https://main.default.shop.example"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("kubectl shows no %s: %s", want, out)
			}
		}
		if strings.Contains(out, "bank") {
			t.Fatalf("kubectl shows what is in another slice: %s", out)
		}
		return nil
	})
}

// classStays: nobody changes the class of a cluster, and who tries is told why.
func (m *market) classStays(t *testing.T) {
	const want = `spec.class: Forbidden: APIExportView "classes" of space "platform" slices by it: it stays "a" until the object is deleted`
	for _, patch := range []string{`{"spec":{"class":"b"}}`, `{"spec":{"class":null}}`} {
		if said := env.KubectlFails(t, m.files["shop"], "patch", "kc", "main", "--type=merge", "-p", patch); !strings.Contains(said, want) {
			t.Errorf("%s: %s", patch, said)
		}
	}
	if said := env.KubectlFails(t, m.files["provider-a"], m.inSlice("a", "patch", "kc", "-n", "shop--default", "main", "--type=merge", "-p", `{"spec":{"class":"b"}}`)...); !strings.Contains(said, "spec.class: Forbidden") {
		t.Errorf("by way of the slice: %s", said)
	}
}

// moves: a cluster that is made again with another class leaves one slice once, and enters
// the other once, and so does its Secret.
func (m *market) moves(t *testing.T) {
	a, b := m.watches(t, "provider-a", slicePath("a"), clusterResources), m.watches(t, "provider-b", slicePath("b"), clusterResources)
	aSecrets, bSecrets := m.watches(t, "provider-a", slicePath("a"), secretResources), m.watches(t, "provider-b", slicePath("b"), secretResources)
	env.Kubectl(t, m.files["labs"], "delete", "kc", "main")
	m.asks(t, "labs", "main", "b")
	m.served(t, "labs", "main", "b")
	// What comes after all that is seen last.
	m.asks(t, "shop", "marker", "a")
	m.asks(t, "bank", "marker", "b")
	a.shows(t, "shop--default/marker", "ADDED .*")
	b.shows(t, "bank--default/marker", "ADDED .*")
	aSecrets.shows(t, "shop--default/marker-kubeconfig", "ADDED ")
	bSecrets.shows(t, "bank--default/marker-kubeconfig", "ADDED ")

	const object, secret = "labs--default/main", "labs--default/main-kubeconfig"
	a.shows(t, object, "(MODIFIED )+DELETED ")
	b.shows(t, object, "ADDED (MODIFIED )+")
	aSecrets.shows(t, secret, "DELETED ")
	bSecrets.shows(t, secret, "ADDED ")
}

// gives: what has no class is in the rest, and is given to a provider once, by the platform.
func (m *market) gives(t *testing.T) {
	none, b := m.watches(t, "platform", slicePath(""), clusterResources), m.watches(t, "provider-b", slicePath("b"), clusterResources)
	m.asks(t, "labs", "any", "")
	none.shows(t, "labs--default/any", "ADDED ")
	env.Kubectl(t, m.files["platform"], m.inSlice("", "patch", "kc", "-n", "labs--default", "any", "--type=merge", "-p", `{"spec":{"class":"b"}}`)...)
	m.served(t, "labs", "any", "b")
	m.asks(t, "labs", "lost", "")
	none.shows(t, "labs--default/lost", "ADDED ")
	none.shows(t, "labs--default/any", "ADDED DELETED ")
	b.shows(t, "labs--default/any", "ADDED (MODIFIED )+")
}

// rejects: a consumer who takes back a claim takes its Secrets from the provider's sight, and
// keeps them.
func (m *market) rejects(t *testing.T) {
	secrets := m.watches(t, "provider-a", slicePath("a"), secretResources)
	const object = "shop--default/main-kubeconfig"
	says := func(state string) {
		t.Helper()
		env.Kubectl(t, m.files["shop"], "patch", "apibinding", "clusters", "--type=merge", "-p", `{"spec":{"claims":[{"group":"","resource":"secrets","state":"`+state+`"}]}}`)
	}
	says("Rejected")
	secrets.shows(t, object, "DELETED ")
	if code := m.sends(t, "provider-a", http.MethodGet, slicePath("a")+"/api/v1/namespaces/shop--default/secrets/main-kubeconfig", ""); code != http.StatusNotFound {
		t.Errorf("a Secret that is not accepted: %d", code)
	}
	if err := has(t, m.client(t, "shop"), &corev1.Secret{}, "main-kubeconfig"); err != nil {
		t.Errorf("in its space: %v", err)
	}
	says("Accepted")
	secrets.shows(t, object, "DELETED ADDED ")
	m.served(t, "shop", "main", "a")
}

// revokes: without the Grant of its slice a provider is refused everything, and what it had
// open ends; the other goes on. With it again, the provider goes on by itself.
func (m *market) revokes(t *testing.T) {
	open, other := m.watches(t, "provider-a", slicePath("a"), clusterResources), m.watches(t, "provider-b", slicePath("b"), clusterResources)
	env.Kubectl(t, m.files["platform"], "delete", "grant", "provider-a")
	open.ends(t)
	for _, path := range []string{"/apis", "/apis/clusters.example.org/v1/kubernetesclusters", "/api/v1/namespaces/shop--default/secrets/main-kubeconfig"} {
		if code := m.sends(t, "provider-a", http.MethodGet, slicePath("a")+path, ""); code != http.StatusForbidden {
			t.Errorf("%s without the Grant: %d", path, code)
		}
	}
	m.asks(t, "shop", "late", "a")
	env.Kubectl(t, m.files["shop"], "delete", "kc", "marker", "--wait=false")
	m.asks(t, "shop", "beside", "b")
	m.served(t, "shop", "beside", "b")
	other.shows(t, "shop--default/beside", "ADDED (MODIFIED )+")
	shop := m.client(t, "shop")
	var late clusters.KubernetesCluster
	if err := has(t, shop, &late, "late"); err != nil || late.Status != (clusters.Status{}) || len(late.Finalizers) != 0 {
		t.Errorf("who has no Grant serves: %+v, %v", late, err)
	}
	if err := has(t, shop, &clusters.KubernetesCluster{}, "marker"); err != nil {
		t.Errorf("what waits for its provider: %v", err)
	}
	m.apply(t, "platform", "grants.yaml")
	m.served(t, "shop", "late", "a")
	env.Eventually(t, soon, func() error { return gone(has(t, shop, &clusters.KubernetesCluster{}, "marker")) })
}

// leaves: without the export all that consumers have stays, and is read; what they write
// waits. When it is back, all goes on.
func (m *market) leaves(t *testing.T, early *early) {
	env.Kubectl(t, m.files["platform"], "delete", "apiexport", "clusters")
	for _, s := range []string{"shop", "bank", "labs"} {
		m.bound(t, s, "False NoSuchExport")
	}
	shop := m.client(t, "shop")
	if err := isServed(t, shop, "shop", "main", "a"); err != nil {
		t.Errorf("without the export: %v", err)
	}
	if code := m.sends(t, "shop", http.MethodPost, "/spaces/shop/apis/clusters.example.org/v1/namespaces/default/kubernetesclusters",
		`{"apiVersion":"clusters.example.org/v1","kind":"KubernetesCluster","metadata":{"name":"waits"},"spec":{"class":"a"}}`); code != http.StatusServiceUnavailable {
		t.Errorf("a creation: %d", code)
	}
	if said := env.KubectlFails(t, m.files["shop"], "annotate", "kc", "main", "k=v"); !strings.Contains(said, "APIExport") {
		t.Errorf("who changes something is told %s", said)
	}
	env.Kubectl(t, m.files["shop"], "delete", "kc", "late", "--wait=false")
	if code := m.sends(t, "provider-a", http.MethodGet, slicePath("a")+"/apis/clusters.example.org/v1/kubernetesclusters", ""); code != http.StatusNotFound {
		t.Errorf("the slice of an export that is gone: %d", code)
	}

	m.apply(t, "platform", "export.yaml")
	for _, s := range []string{"shop", "bank", "labs"} {
		m.bound(t, s, "True Served")
	}
	m.asks(t, "bank", "again", "a")
	m.asks(t, "shop", "again", "b")
	m.served(t, "bank", "again", "a")
	m.served(t, "shop", "again", "b")
	env.Eventually(t, soon, func() error { return gone(has(t, shop, &clusters.KubernetesCluster{}, "late")) })
	early.has(t, "bank--default/main", "bank--default/marker", "labs--default/any", "labs--default/main", "labs--default/other", "shop--default/again", "shop--default/beside")
}

// sends is the code of the answer to what somebody sends by way of the balancer.
func (m *market) sends(t *testing.T, who, method, path, body string, header ...string) int {
	t.Helper()
	c, err := rest.HTTPClientFor(m.config(t, who))
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+m.front.Address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
