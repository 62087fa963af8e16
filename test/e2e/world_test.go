package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/wire"
	"orrery.dev/orrery/test/env"
)

// soon is how long a change may take to arrive on a busy machine. It bounds
// waiting; how fast things are is for the benchmarks to say.
const soon = 60 * time.Second

// world is a hub with a space, and clusters that have joined it.
type world struct {
	t     *testing.T
	hub   *env.Hub
	space string // kubeconfig of the space
	root  string // kubeconfig of the space root
	sites map[string]*site
}

// site is a location: its cluster and its agent.
type site struct {
	name    string
	cluster *env.Cluster
	agent   *env.Agent
}

const spaceName = "shop"

// newWorld starts a hub with the space shop, and a real cluster with an agent
// for each location, labelled site=NAME.
func newWorld(t *testing.T, locations ...string) *world {
	t.Helper()
	hub := env.StartHub(t)
	w := &world{t: t, hub: hub, root: hub.Kubeconfig, space: hub.PathKubeconfig("spaces/" + spaceName), sites: map[string]*site{}}
	env.Orrery(t, w.root, "space", "create", spaceName)
	for _, name := range locations {
		w.join(name)
	}
	return w
}

// join starts a cluster and makes it a location.
func (w *world) join(name string) {
	w.t.Helper()
	c := env.StartCluster(w.t, name)
	env.Orrery(w.t, w.root, "location", "add", name, "--label", "site="+name)
	w.sites[name] = &site{name: name, cluster: c, agent: env.StartAgent(w.t, name, w.token(name), c.AgentKubeconfig)}
}

// token makes a join token as the command line does.
func (w *world) token(location string) string {
	w.t.Helper()
	client, err := rest.UnversionedRESTClientFor(unversioned(w.hub.PathConfig("")))
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := client.Post().AbsPath("/spaces/root/apis/orrery.dev/v1alpha1/locations", location, "token").Do(w.t.Context()).Raw()
	if err != nil {
		w.t.Fatalf("make a token for %q: %v", location, err)
	}
	var token v1alpha1.LocationToken
	if err := json.Unmarshal(answer, &token); err != nil {
		w.t.Fatal(err)
	}
	return token.Status.Token
}

// bearer is the secret in a join token.
func (w *world) bearer(location string) string {
	w.t.Helper()
	join, err := wire.ParseJoin(w.token(location))
	if err != nil {
		w.t.Fatal(err)
	}
	return join.Token
}

func unversioned(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.NegotiatedSerializer = nopNegotiated()
	c.GroupVersion = &schema.GroupVersion{}
	return c
}

// kubectl runs kubectl in the space.
func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	return env.Kubectl(w.t, w.space, args...)
}

// apply applies YAML in the space, server-side.
func (w *world) apply(yaml string) {
	w.t.Helper()
	env.KubectlIn(w.t, w.space, yaml, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

func dynamicClient(t *testing.T, c *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits for f.
func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	start := time.Now()
	env.Eventually(w.t, soon, f)
	w.t.Logf("%s: after %s", what, time.Since(start).Round(time.Millisecond))
}

// at gets an object of the site's cluster.
func (s *site) at(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	t.Helper()
	var r dynamic.ResourceInterface = dynamicClient(t, s.cluster.Config).Resource(gvr)
	if namespace != "" {
		r = dynamicClient(t, s.cluster.Config).Resource(gvr).Namespace(namespace)
	}
	return r.Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
}

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	widgets     = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// expectField waits until a field of an object at a site has a value.
func (w *world) expectField(s *site, gvr schema.GroupVersionResource, namespace, name, want string, path ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s: %s %s/%s has %s=%q", s.name, gvr.Resource, namespace, name, strings.Join(path, "."), want), func() error {
		u, err := s.at(w.t, gvr, namespace, name)
		if err != nil {
			return err
		}
		got, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
		if err != nil || !found || fmt.Sprint(got) != want {
			return fmt.Errorf("%s is %v, want %s", strings.Join(path, "."), got, want)
		}
		return nil
	})
}
