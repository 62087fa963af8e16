package shards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	location = "paris"
	// leases is the namespace of Leases; shared is a namespace with objects of two shards.
	leases, shared = "orrery-system", "shared"
	soon           = env.Soon
)

// site is a location that several agents share, and spaces that each assign an object to it.
type site struct {
	*world.World
	t       *testing.T
	hub     *env.Hub
	Cluster *env.Cluster
	spaces  []key.Space
	uids    map[key.Space]types.UID
	value   string
	made    int
}

// newSite starts a hub with additional flags, a location, and spaces in each shard of two and of
// three.
func newSite(t *testing.T, hubArgs ...string) *site {
	hub := env.StartHub(t, hubArgs...)
	w := &site{World: world.ForHub(t, hub), t: t, hub: hub, Cluster: env.StartCluster(t, location, env.APIOnly()), uids: map[key.Space]types.UID{}, value: "1"}
	w.orrery("location", "add", location, "--label", "site="+location)
	have := map[[2]int]bool{} // one space for each pair of a shard of two and a shard of three
	for i := range 100 {
		space := key.Space(fmt.Sprintf("team-%d", i))
		if shards := [2]int{key.ShardOf(space, 2), key.ShardOf(space, 3)}; !have[shards] {
			have[shards] = true
			w.addSpace(space)
		}
	}
	for number := 1; number <= 2; number++ {
		w.apply(w.spaceOf(number), object("Namespace", "", shared, "")+object("ConfigMap", shared, fmt.Sprintf("of-%d", number), "1"))
	}
	w.apply(w.spaceOf(1), placement("shared", shared))
	return w
}

func (w *site) addSpace(space key.Space) {
	w.AddSpace(string(space))
	w.spaces = append(w.spaces, space)
	w.apply(space, object("Namespace", "", string(space), "")+object("ConfigMap", string(space), "m", w.value)+placement("own", string(space)))
}

// placement returns a Placement of all ConfigMaps of a space and one Namespace.
func placement(name, namespace string) string {
	return fmt.Sprintf(`---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: %s}
spec:
  locations: [{selector: {matchLabels: {site: %s}}}]
  downsync: [{resources: [configmaps]}, {resources: [namespaces], names: [%s]}]
`, name, location, namespace)
}

// twoShards divides the location into two shards, each with an agent, and returns a space of each.
func (w *site) twoShards() (first, second key.Space) {
	w.t.Helper()
	w.orrery("location", "shards", location, "2")
	for _, shard := range []string{"1/2", "2/2"} {
		w.agent(shard, w.Cluster.AgentKubeconfig)
	}
	w.converged()
	return w.spaceOf(1), w.spaceOf(2)
}

// spaceOf returns a space that belongs to the shard with this number, of two.
func (w *site) spaceOf(number int) key.Space {
	for _, space := range w.spaces {
		if key.ShardOf(space, 2) == number {
			return space
		}
	}
	w.t.Fatalf("no space belongs to shard %d", number)
	return ""
}

func object(kind, namespace, name, value string) string {
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	o := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": meta}
	if value != "" {
		o["data"] = map[string]any{"v": value}
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return "---\n" + string(b) + "\n"
}

func (w *site) kubectl(space key.Space, args ...string) {
	w.t.Helper()
	env.Kubectl(w.t, w.Hub.PathKubeconfig("spaces/"+string(space)), args...)
}

func (w *site) apply(space key.Space, yaml string) {
	w.t.Helper()
	env.KubectlIn(w.t, w.Hub.PathKubeconfig("spaces/"+string(space)), yaml, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

func (w *site) orrery(args ...string) string {
	w.t.Helper()
	return env.Orrery(w.t, w.Root, args...)
}

// agent starts an agent of a shard with an empty data directory.
func (w *site) agent(shard, kubeconfig string) *env.Agent {
	w.t.Helper()
	parsed, err := key.ParseShard(shard)
	if err != nil {
		w.t.Fatal(err)
	}
	token := w.orrery("location", "token", location, "--token-only", "--shard", fmt.Sprint(parsed.Number()))
	w.made++
	return env.StartAgent(w.t, fmt.Sprintf("%d-of-%d-%d", parsed.Number(), parsed.Total(), w.made), token, kubeconfig, "--shards", shard, "--lease-duration", wait.String())
}

// again starts an agent that has exited as the agent of another shard.
func (w *site) again(a *env.Agent, shard string) *env.Agent {
	w.t.Helper()
	a.Start("--shards", shard, "--lease-duration", wait.String())
	return a
}

// edit changes the object of each space.
func (w *site) edit(value string) {
	w.t.Helper()
	w.value = value
	for _, space := range w.spaces {
		w.apply(space, object("ConfigMap", string(space), "m", value))
	}
}

// converged waits until each object equals its source.
func (w *site) converged() {
	w.t.Helper()
	env.Eventually(w.t, soon, w.differences)
}

// differences returns an error if an object differs from its source.
func (w *site) differences() error {
	for _, space := range w.spaces {
		m, err := w.Cluster.Client.CoreV1().ConfigMaps(string(space)).Get(w.t.Context(), "m", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if m.Data["v"] != w.value {
			return fmt.Errorf("%s has %s, want %s", space, m.Data["v"], w.value)
		}
		if w.uids[space] == "" {
			w.uids[space] = m.UID
		}
	}
	return nil
}

// status returns the status that an agent has written.
func (w *site) status(a *env.Agent) (s agent.Status) {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(a.Dir, "status.json"))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}
