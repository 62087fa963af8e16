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

// TestProviders follows an API that a platform exports to three spaces. Two providers serve it
// with stock controllers, each the clusters of its own class, through a load balancer that
// terminates TLS.
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
	m.createCluster(t, "bank", "main", "b")
	m.createCluster(t, "labs", "main", "a")
	m.createCluster(t, "labs", "other", "b")

	t.Run("each provider serves its own", func(t *testing.T) { m.serves(t, early) })
	t.Run("kubectl follows a slice", m.kubectlFollows)
	t.Run("a class stays", m.classStays)
	t.Run("moved by deletion and creation", m.moves)
	t.Run("assigned from the rest", m.assigns)
	t.Run("a claim is taken back", m.rejects)
	t.Run("nothing foreign is reached", m.foreign)
	t.Run("a grant is taken back", m.revokes)
	t.Run("the export goes and comes back", func(t *testing.T) { m.leaves(t, early) })
}

// early is an informer of provider b that was started before the export and its slices existed.
type early struct {
	log      traffic
	informer cache.SharedIndexInformer
}

// informs starts the early informer, and waits until the hub has answered it that there is no such slice.
func (m *market) informs(t *testing.T) *early {
	t.Helper()
	e := &early{}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(e.log.recording(m.sliced(t, "b"))), 0)
	e.informer = factory.ForResource(clusterResources).Informer()
	stop := start(t, factory.Start)
	t.Cleanup(func() { stop(); factory.Shutdown() })
	env.Eventually(t, soon, func() error {
		if _, requested := e.log.any(clusterResources.Resource, "sendInitialEvents=true"); !requested {
			return fmt.Errorf("the informer has not requested a streaming list")
		}
		return nil
	})
	if e.informer.HasSynced() {
		t.Fatal("the informer is synced before the slice exists")
	}
	return e
}

// waitFor waits until the informer's cache strings.Contains(message, exactly these clusters.
func (e *early) waitFor(t *testing.T, want ...string) {
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

// offersWhileThereIsNothing checks that discovery of an empty slice lists the resources of the
// export and its claims, and no others.
func (m *market) offersWhileThereIsNothing(t *testing.T) {
	t.Helper()
	var out string
	env.Eventually(t, soon, func() (err error) { // the hub serves an export and its view some time after they are applied
		out, err = env.TryKubectl(t, m.files["provider-a"], m.inSlice("a", "api-resources", "--no-headers", "-o", "name")...)
		return err
	})
	for _, want := range []string{"kubernetesclusters.clusters.example.org", "secrets"} {
		if !slices.Contains(strings.Fields(out), want) {
			t.Errorf("the slice has no %s: %s", want, out)
		}
	}
	if strings.Contains(out, "configmaps") {
		t.Errorf("the slice serves a resource that is not claimed: %s", out)
	}
}

// serves checks that the provider of its class serves each cluster, that the early informer
// receives all clusters of its slice, and that the statuses that the platform reads count them.
func (m *market) serves(t *testing.T, early *early) {
	m.served(t, "shop", "main", "a")
	m.served(t, "bank", "main", "b")
	m.served(t, "labs", "main", "a")
	m.served(t, "labs", "other", "b")
	early.waitFor(t, "bank--default/main", "labs--default/other")
	env.Eventually(t, soon, func() error {
		out, err := env.TryKubectl(t, m.files["platform"], "get", "apiexportviews/classes", "apiexports/clusters", "-o",
			"jsonpath={range .items[*]}{.status.bindings}{range .status.endpoints[*]}{.value}={.objects} {end}{end}")
		if err != nil {
			return err
		}
		if want := "a=4 b=4 3"; out != want {
			return fmt.Errorf("the status is %q, want %q", out, want)
		}
		return nil
	})
}

// kubectlFollows checks that kubectl lists and watches a slice.
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
			t.Fatalf("kubectl shows an object of another slice: %s", out)
		}
		return nil
	})
}

// classStays checks that the hub rejects each change of a cluster's class, and explains why.
func (m *market) classStays(t *testing.T) {
	const want = `spec.class: Forbidden: APIExportView "classes" of space "platform" slices by it: it stays "a" until the object is deleted`
	for _, patch := range []string{`{"spec":{"class":"b"}}`, `{"spec":{"class":null}}`} {
		if message := env.KubectlFails(t, m.files["shop"], "patch", "kc", "main", "--type=merge", "-p", patch); !strings.Contains(message, want) {
			t.Errorf("%s: %s", patch, message)
		}
	}
	if message := env.KubectlFails(t, m.files["provider-a"], m.inSlice("a", "patch", "kc", "-n", "shop--default", "main", "--type=merge", "-p", `{"spec":{"class":"b"}}`)...); !strings.Contains(message, "spec.class: Forbidden") {
		t.Errorf("through the slice: %s", message)
	}
}

// moves checks that a cluster that is deleted and created with another class leaves one slice
// once and enters the other once, and so does its Secret.
func (m *market) moves(t *testing.T) {
	a, b := m.watches(t, "provider-a", slicePath("a"), clusterResources), m.watches(t, "provider-b", slicePath("b"), clusterResources)
	aSecrets, bSecrets := m.watches(t, "provider-a", slicePath("a"), secretResources), m.watches(t, "provider-b", slicePath("b"), secretResources)
	env.Kubectl(t, m.files["labs"], "delete", "kc", "main")
	m.createCluster(t, "labs", "main", "b")
	m.served(t, "labs", "main", "b")
	// Once the watches have shown the markers, they have shown all earlier events.
	m.createCluster(t, "shop", "marker", "a")
	m.createCluster(t, "bank", "marker", "b")
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

// assigns checks that a cluster without a class is in the rest slice, and that the platform can
// assign it to a provider once by setting its class.
func (m *market) assigns(t *testing.T) {
	none, b := m.watches(t, "platform", slicePath(""), clusterResources), m.watches(t, "provider-b", slicePath("b"), clusterResources)
	m.createCluster(t, "labs", "any", "")
	none.shows(t, "labs--default/any", "ADDED ")
	env.Kubectl(t, m.files["platform"], m.inSlice("", "patch", "kc", "-n", "labs--default", "any", "--type=merge", "-p", `{"spec":{"class":"b"}}`)...)
	m.served(t, "labs", "any", "b")
	m.createCluster(t, "labs", "lost", "")
	none.shows(t, "labs--default/lost", "ADDED ")
	none.shows(t, "labs--default/any", "ADDED DELETED ")
	b.shows(t, "labs--default/any", "ADDED (MODIFIED )+")
}

// rejects checks that a consumer that rejects a claim hides its Secrets from the provider, and
// keeps them.
func (m *market) rejects(t *testing.T) {
	secrets := m.watches(t, "provider-a", slicePath("a"), secretResources)
	const object = "shop--default/main-kubeconfig"
	decide := func(state string) {
		t.Helper()
		env.Kubectl(t, m.files["shop"], "patch", "apibinding", "clusters", "--type=merge", "-p", `{"spec":{"claims":[{"group":"","resource":"secrets","state":"`+state+`"}]}}`)
	}
	decide("Rejected")
	secrets.shows(t, object, "DELETED ")
	if code := m.sends(t, "provider-a", http.MethodGet, slicePath("a")+"/api/v1/namespaces/shop--default/secrets/main-kubeconfig", ""); code != http.StatusNotFound {
		t.Errorf("reading a Secret whose claim is rejected: status %d", code)
	}
	if err := get(t, m.client(t, "shop"), &corev1.Secret{}, "main-kubeconfig"); err != nil {
		t.Errorf("reading the Secret in its space: %v", err)
	}
	decide("Accepted")
	secrets.shows(t, object, "DELETED ADDED ")
	m.served(t, "shop", "main", "a")
}

// revokes checks that the hub rejects every request of a provider whose Grant is deleted, and ends
// its watches, while the other provider continues. Once the Grant is back, the provider recovers
// by itself.
func (m *market) revokes(t *testing.T) {
	open, other := m.watches(t, "provider-a", slicePath("a"), clusterResources), m.watches(t, "provider-b", slicePath("b"), clusterResources)
	env.Kubectl(t, m.files["platform"], "delete", "grant", "provider-a")
	open.ends(t)
	for _, path := range []string{"/apis", "/apis/clusters.example.org/v1/kubernetesclusters", "/api/v1/namespaces/shop--default/secrets/main-kubeconfig"} {
		if code := m.sends(t, "provider-a", http.MethodGet, slicePath("a")+path, ""); code != http.StatusForbidden {
			t.Errorf("%s without the Grant: %d", path, code)
		}
	}
	m.createCluster(t, "shop", "late", "a")
	env.Kubectl(t, m.files["shop"], "delete", "kc", "marker", "--wait=false")
	m.createCluster(t, "shop", "beside", "b")
	m.served(t, "shop", "beside", "b")
	other.shows(t, "shop--default/beside", "ADDED (MODIFIED )+")
	shop := m.client(t, "shop")
	var late clusters.KubernetesCluster
	if err := get(t, shop, &late, "late"); err != nil || late.Status != (clusters.Status{}) || len(late.Finalizers) != 0 {
		t.Errorf("a provider without a Grant has served a cluster: %+v, %v", late, err)
	}
	if err := get(t, shop, &clusters.KubernetesCluster{}, "marker"); err != nil {
		t.Errorf("a deleted cluster whose provider has no Grant: %v, want it to exist until its finalizer is removed", err)
	}
	m.apply(t, "platform", "grants.yaml")
	m.served(t, "shop", "late", "a")
	env.Eventually(t, soon, func() error { return gone(get(t, shop, &clusters.KubernetesCluster{}, "marker")) })
}

// leaves checks that consumers keep and can read their objects while the export does not exist;
// the hub rejects their creations and changes, and a deletion takes effect once the export is back.
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
	if message := env.KubectlFails(t, m.files["shop"], "annotate", "kc", "main", "k=v"); !strings.Contains(message, "APIExport") {
		t.Errorf("without the export, an annotation fails with %s", message)
	}
	env.Kubectl(t, m.files["shop"], "delete", "kc", "late", "--wait=false")
	if code := m.sends(t, "provider-a", http.MethodGet, slicePath("a")+"/apis/clusters.example.org/v1/kubernetesclusters", ""); code != http.StatusNotFound {
		t.Errorf("the slice of a deleted export: %d", code)
	}

	m.apply(t, "platform", "export.yaml")
	for _, s := range []string{"shop", "bank", "labs"} {
		m.bound(t, s, "True Served")
	}
	m.createCluster(t, "bank", "again", "a")
	m.createCluster(t, "shop", "again", "b")
	m.served(t, "bank", "again", "a")
	m.served(t, "shop", "again", "b")
	env.Eventually(t, soon, func() error { return gone(get(t, shop, &clusters.KubernetesCluster{}, "late")) })
	early.waitFor(t, "bank--default/main", "bank--default/marker", "labs--default/any", "labs--default/main", "labs--default/other", "shop--default/again", "shop--default/beside")
}

// sends makes a request of a user through the load balancer, and returns the status code.
func (m *market) sends(t *testing.T, user, method, path, body string, header ...string) int {
	t.Helper()
	c, err := rest.HTTPClientFor(m.config(t, user))
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
