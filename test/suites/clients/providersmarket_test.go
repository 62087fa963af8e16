package clients

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"orrery.dev/orrery/examples/clusters"
	"orrery.dev/orrery/test/support/env"
)

var (
	clusterResources = schema.GroupVersionResource{Group: "clusters.example.org", Version: "v1", Resource: "kubernetesclusters"}
	secretResources  = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// market is a platform that exports KubernetesClusters to the spaces of consumers. Each provider
// serves its slice through a load balancer. All objects come from the files of the example.
type market struct {
	hub   *env.Hub
	front *env.Proxy
	// files are kubeconfigs, by the spaces or users that they are for.
	files map[string]string
}

func newMarket(t *testing.T, consumers ...string) *market {
	t.Helper()
	hub := env.StartHub(t)
	m := &market{hub: hub, front: hub.StartTerminating(), files: map[string]string{}}
	env.CreateSpace(t, hub.Kubeconfig, "platform")
	m.mint(t, "platform", "platform")
	for _, s := range consumers {
		env.CreateSpace(t, hub.Kubeconfig, s)
		m.mint(t, s, s, "--group", "consumers", "--role", "admin")
	}
	for _, user := range []string{"provider-a", "provider-b"} {
		m.mintToken(t, user, user, "--space", "platform")
	}
	return m
}

// mint creates a kubeconfig for a space at the hub.
func (m *market) mint(t *testing.T, name, space string, args ...string) {
	t.Helper()
	text := env.Orrery(t, m.hub.Kubeconfig, append([]string{"space", "kubeconfig", space}, args...)...)
	m.files[name] = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(m.files[name], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mintToken creates a kubeconfig for the space of the platform, with a token of a user that may have no
// rights yet.
func (m *market) mintToken(t *testing.T, name, user string, args ...string) {
	t.Helper()
	platform, err := os.ReadFile(m.files["platform"])
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(env.Orrery(t, m.hub.Kubeconfig, append([]string{"token", "create", "--user", user}, args...)...))
	m.files[name] = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(m.files[name], regexp.MustCompile(`token: .*`).ReplaceAll(platform, []byte("token: "+token)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// config returns the client configuration of a kubeconfig, without a rate limit in the client.
func (m *market) config(t *testing.T, name string) *rest.Config {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", m.files[name])
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1
	return c
}

// slicePath returns the path of the slice of a class across all spaces. An empty class stands for
// the rest slice.
func slicePath(class string) string {
	if class == "" {
		return "/views/slices/platform/classes/rest/spaces/*"
	}
	return "/views/slices/platform/classes/values/" + class + "/spaces/*"
}

// sliced returns the client configuration of a provider for its slice, through the load balancer.
func (m *market) sliced(t *testing.T, class string) *rest.Config {
	t.Helper()
	c := m.config(t, "provider-"+class)
	c.Host = "https://" + m.front.Address + slicePath(class)
	return c
}

// provides runs a provider until the test ends.
func (m *market) provides(t *testing.T, class string, provider func(*rest.Config, string, ctrl.Options) (ctrl.Manager, error)) {
	t.Helper()
	manager, err := provider(m.sliced(t, class), class, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- manager.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("provider %s: %v", class, err)
		}
	})
}

// apply applies files of the example in a space with kubectl.
func (m *market) apply(t *testing.T, space string, files ...string) {
	t.Helper()
	args := []string{"apply"}
	for _, f := range files {
		args = append(args, "-f", filepath.Join("../../../examples/clusters", f))
	}
	env.Kubectl(t, m.files[space], args...)
}

// createCluster creates a cluster as the consumer of a space.
func (m *market) createCluster(t *testing.T, space, name, class string) {
	t.Helper()
	env.KubectlIn(t, m.files[space], fmt.Sprintf(`
apiVersion: clusters.example.org/v1
kind: KubernetesCluster
metadata: {name: %s}
spec: {class: %q}
`, name, class), "create", "-f", "-")
}

// client returns the client of a consumer.
func (m *market) client(t *testing.T, space string) client.Client {
	t.Helper()
	c, err := client.New(m.config(t, space), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// served waits until a provider has served a cluster of a consumer: its status, and a Secret that
// the cluster owns.
func (m *market) served(t *testing.T, space, name, provider string) {
	t.Helper()
	c := m.client(t, space)
	env.Eventually(t, soon, func() error { return isServed(t, c, space, name, provider) })
}

func isServed(t *testing.T, c client.Client, space, name, provider string) error {
	t.Helper()
	var cluster clusters.KubernetesCluster
	if err := get(t, c, &cluster, name); err != nil {
		return err
	}
	endpoint := fmt.Sprintf("https://%s.default.%s.example", name, space)
	if want := (clusters.Status{Provider: provider, Endpoint: endpoint, Secret: name + "-kubeconfig", Nodes: 3}); cluster.Status != want {
		return fmt.Errorf("the status of %s in %s is %+v, want %+v", name, space, cluster.Status, want)
	}
	var secret corev1.Secret
	if err := get(t, c, &secret, name+"-kubeconfig"); err != nil {
		return err
	}
	owner := metav1.OwnerReference{
		APIVersion: clusters.Version.String(), Kind: "KubernetesCluster", Name: name, UID: cluster.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
	if !reflect.DeepEqual(secret.OwnerReferences, []metav1.OwnerReference{owner}) || len(secret.Annotations) != 0 ||
		!maps.Equal(secret.Labels, map[string]string{clusters.Label: clusters.LabelValue}) || string(secret.Data["server"]) != endpoint {
		return fmt.Errorf("the Secret is %+v, want it owned by %+v", secret, owner)
	}
	return nil
}

// seen records the events of a raw watch by object.
type seen struct {
	name  string // of the watch, for messages
	ended chan struct{}

	mu     sync.Mutex
	events map[string]string
}

// watches lists a resource as a user, and watches it from there until the test or the watch ends.
// It does not use the load balancer, which closes idle connections.
func (m *market) watches(t *testing.T, user, path string, gvr schema.GroupVersionResource) *seen {
	t.Helper()
	c := m.config(t, user)
	c.Host = m.hub.URL + path
	resource := dynamic.NewForConfigOrDie(c).Resource(gvr)
	list, err := resource.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := resource.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{name: gvr.Resource + " at " + path, ended: make(chan struct{}), events: map[string]string{}}
	t.Cleanup(w.Stop)
	go func() {
		defer close(s.ended)
		for e := range w.ResultChan() {
			name := "an error"
			if m, err := meta.Accessor(e.Object); err == nil {
				name = m.GetNamespace() + "/" + m.GetName()
			}
			s.mu.Lock()
			s.events[name] += string(e.Type) + " "
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *seen) what(object string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[object]
}

// shows waits until the events of an object match a regular expression.
func (s *seen) shows(t *testing.T, object, pattern string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		select {
		case <-s.ended:
			t.Fatalf("the watch of %s has ended: %s", s.name, s.what("an error"))
		default:
		}
		if got := s.what(object); !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
			return fmt.Errorf("%s has %q of %s, want %s", s.name, got, object, pattern)
		}
		return nil
	})
}

// ends waits until the watch has ended.
func (s *seen) ends(t *testing.T) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		select {
		case <-s.ended:
			return nil
		default:
			return errors.New("the watch of " + s.name + " goes on")
		}
	})
}

// bound waits until the binding of a space is Ready, or not, for a reason.
func (m *market) bound(t *testing.T, space, want string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		out, err := env.TryKubectl(t, m.files[space], "get", "apibinding", "clusters", "--no-headers")
		if err == nil && !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			err = fmt.Errorf("the binding of %s is %s, want %s", space, out, want)
		}
		return err
	})
}
