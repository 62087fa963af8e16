package network

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// site is a location whose agent is started anew for each network, and a space that is
// placed there.
type site struct {
	*world.World
	t       *testing.T
	cluster *env.Cluster
	site    *world.Site
	// space is the operator's kubeconfig of the space.
	space string
}

const placement = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: all}
spec:
  locations: [{selector: {}}]
  downsync: [{labelSelectors: [{matchLabels: {app: shop}}]}]
`

// siteOf starts a cluster for a hub's location edge, without an agent.
func siteOf(t *testing.T, w *world.World) *site {
	t.Helper()
	s := &site{World: w, t: t, cluster: env.StartCluster(t, "edge", env.APIOnly())}
	env.Orrery(t, w.Root, "location", "add", "edge")
	s.space = w.AddSpace("shop")
	env.KubectlIn(t, s.space, placement, "apply", "-f", "-")
	s.site = &world.Site{Name: "edge", Cluster: s.cluster, Client: world.Dynamic(t, s.cluster.Config)}
	w.Sites["edge"] = s.site
	return s
}

// prefer has the location prefer an endpoint of the hub.
func (s *site) prefer(endpoint string) {
	s.t.Helper()
	env.Kubectl(s.t, s.Root, "annotate", "location", "edge", "--overwrite", "orrery.dev/endpoint="+endpoint)
}

// join starts an agent with only a join token.
func (s *site) join(before func(*env.Agent), args ...string) *env.Agent {
	s.t.Helper()
	token := strings.TrimSpace(env.Orrery(s.t, s.Root, "location", "token", "edge", "--token-only"))
	a := env.NewAgent(s.t, "edge")
	if before != nil {
		before(a)
	}
	a.Start(append([]string{"--join", token, "--kubeconfig", s.cluster.AgentKubeconfig}, args...)...)
	s.site.Agent = a
	return a
}

// reaches waits until the agent has a session at a URL of the hub.
func (s *site) reaches(a *env.Agent, url string) {
	s.t.Helper()
	s.reachesWithin(a, url, world.Soon)
}

func (s *site) reachesWithin(a *env.Agent, url string, timeout time.Duration) {
	s.t.Helper()
	env.Eventually(s.t, timeout, func() error {
		status, err := agent.ReadStatus(a.Dir)
		if err == nil && (!status.Connected || status.Hub != url) {
			err = fmt.Errorf("connected %v to %s: %s", status.Connected, status.Hub, status.LastError)
		}
		return err
	})
}

// travels checks that an object is created, changed, reported and removed at the site.
func (s *site) travels(name, kubeconfig string) {
	s.t.Helper()
	for _, value := range []string{"1", "2"} {
		env.KubectlIn(s.t, kubeconfig, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"app":"shop"}},"data":{"v":%q}}`, name, value), "apply", "-f", "-")
		env.Eventually(s.t, world.Soon, func() error {
			o, err := s.site.Get(s.t, world.ConfigMaps, metav1.NamespaceDefault, name)
			if err == nil && o.Object["data"].(map[string]any)["v"] != value {
				err = errors.New("it is another value")
			}
			return err
		})
	}
	s.reported(kubeconfig, name, true)
	env.Kubectl(s.t, kubeconfig, "delete", "configmap", name)
	s.reported(kubeconfig, name, false)
}

// reported waits until a report is at the hub, or gone.
func (s *site) reported(kubeconfig, name string, there bool) {
	s.t.Helper()
	env.Eventually(s.t, world.Soon, func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: kubeconfig, Args: []string{"status", "-o", "json"}}.Try(s.t)
		if err == nil && (strings.Contains(out, `/`+name+`"`) && strings.Contains(out, `"Applied"`)) != there {
			err = fmt.Errorf("the status of the space:\n%s", out)
		}
		return err
	})
}

// certificate is one that a balancer shows, by an authority of its own.
type certificate struct {
	// file has it and its key, for HAProxy; ca the authority.
	file, ca string
}

func newCertificate(t *testing.T, host string) certificate {
	t.Helper()
	dir := t.TempDir()
	// The second block is that of the authority that has signed the first.
	chain, key, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := certificate{filepath.Join(dir, "haproxy.pem"), filepath.Join(dir, "ca.pem")}
	_, rest := pem.Decode(chain)
	for name, data := range map[string][]byte{c.file: append(chain, key...), c.ca: rest} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// chart writes a Helm chart and returns its directory.
func chart(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/shop.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-config, labels: {app: shop}}\ndata: {v: {{ .Values.v | quote }}}\n",
		"values.yaml":         "v: first\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
