// Package world is a whole Orrery for tests: a hub with spaces, locations with
// real clusters and agents, and the four invariants, checked by listing both
// sides.
//
// It knows what must hold always; what a test does and expects is for the test
// to say. It must not be imported by anything that ships.
package world

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// Soon is env.Soon.
const Soon = env.Soon

// Some resources.
var (
	Namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	ConfigMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	Deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	CRDs        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	Locations   = v1alpha1.GroupVersion.WithResource("locations")
	Placements  = v1alpha1.GroupVersion.WithResource("placements")
)

// World is a hub, and clusters that have joined it.
type World struct {
	T   env.T
	Hub *env.Hub
	// Root is the kubeconfig of the operators' space.
	Root  string
	Sites map[string]*Site
}

// Site is a location: its cluster and its agent.
type Site struct {
	Name    string
	Cluster *env.Cluster
	Agent   *env.Agent
	// Link is the link over which the agent reaches the hub; nil if there is none.
	Link *env.Link
	// Client is the administrator's client of the cluster.
	Client dynamic.Interface
}

// New starts a hub with further flags.
func New(t env.T, hubArgs ...string) *World {
	t.Helper()
	return ForHub(t, env.StartHub(t, hubArgs...))
}

// ForHub returns the world of a running hub, without locations.
func ForHub(t env.T, hub *env.Hub) *World {
	return &World{T: t, Hub: hub, Root: hub.Kubeconfig, Sites: map[string]*Site{}}
}

// AddSpace creates a space and returns its kubeconfig.
func (w *World) AddSpace(name string) string {
	w.T.Helper()
	env.CreateSpace(w.T, w.Root, name)
	return w.Hub.PathKubeconfig("spaces/" + name)
}

// Join starts a cluster and makes it a location with the label site=NAME. If link is not nil, its agent
// reaches the hub over that.
func (w *World) Join(name string, link *env.Link, options ...env.ClusterOption) *Site {
	w.T.Helper()
	c := env.StartCluster(w.T, name, options...)
	env.Orrery(w.T, w.Root, "location", "add", name, "--label", "site="+name)
	s := &Site{Name: name, Cluster: c, Link: link, Client: Dynamic(w.T, c.Config)}
	token := w.Token(name)
	if link != nil {
		token = Through(w.T, token, link)
	}
	s.Agent = env.StartAgent(w.T, name, token, c.AgentKubeconfig)
	w.Sites[name] = s
	return s
}

// Token makes a join token as the command line does.
func (w *World) Token(location string) string {
	w.T.Helper()
	join, err := w.Hub.Admin().Enrol(w.T.Context(), key.Location(location))
	if err != nil {
		w.T.Fatalf("%v", err)
	}
	return join.Encode()
}

// Through is the join token with a link in the place of the hub.
func Through(t env.T, token string, link *env.Link) string {
	t.Helper()
	join, err := wire.ParseJoin(token)
	if err != nil {
		t.Fatalf("%v", err)
	}
	join.Hub = "https://" + link.Address
	return join.Encode()
}

// Unversioned is a configuration for a client whose bodies the test reads itself.
func Unversioned(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.GroupVersion = &schema.GroupVersion{}
	return c
}

// Dynamic makes a client.
func Dynamic(t env.T, c *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatalf("make a client of %q: %v", c.Host, err)
	}
	return client
}

// Eventually waits for f, and logs how long that took.
func (w *World) Eventually(what string, f func() error) {
	w.T.Helper()
	start := time.Now()
	env.Eventually(w.T, Soon, f)
	w.T.Logf("%s: after %s", what, time.Since(start).Round(time.Millisecond))
}

// Get reads an object of the site's cluster.
func (s *Site) Get(t env.T, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return In(s.Client, gvr, namespace).Get(t.Context(), name, metav1.GetOptions{})
}

// In is a resource in a namespace; "": of the whole cluster.
func In(c dynamic.Interface, gvr schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Resource(gvr)
	}
	return c.Resource(gvr).Namespace(namespace)
}

// LocationUID is the UID of a location.
func (w *World) LocationUID(name string) (string, error) {
	l, err := Dynamic(w.T, w.Hub.PathConfig("spaces/root")).Resource(Locations).Get(w.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get location %q: %w", name, err)
	}
	return string(l.GetUID()), nil
}
