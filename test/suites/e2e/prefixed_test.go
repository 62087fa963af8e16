package e2e

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// prefixed adds a second location with the cluster of a site and the namespace mapping Prefixed, and
// assigns the same objects to it from two spaces.
func (w *shop) prefixed(site *world.Site) {
	w.t.Helper()
	team := w.AddSpace("team")
	token := strings.TrimSpace(env.Orrery(w.t, w.Root, "location", "add", "shared", "--namespaces", "Prefixed", "--token-only"))
	shared := &world.Site{Name: "shared", Cluster: site.Cluster, Client: site.Client, Agent: env.StartAgent(w.t, "shared", token, site.Cluster.AgentKubeconfig)}
	w.Sites["shared"] = shared
	const everywhere = `{orrery.dev/assigned-locations: '["shared","north"]'}`
	spaces := map[string]string{spaceName: w.space, "team": team}
	for _, space := range []string{spaceName, "team"} { // both assign the same objects to north; those of the first are applied
		env.KubectlIn(w.t, spaces[space], `
apiVersion: v1
kind: Namespace
metadata: {name: web, annotations: `+everywhere+`, labels: {kubernetes.io/metadata.name: web, of: `+space+`}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: web, annotations: `+everywhere+`}
data: {of: `+space+`}
---
apiVersion: v1
kind: Secret
metadata: {name: in-default, namespace: default, annotations: {orrery.dev/assigned-locations: '["shared"]'}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: role-of-`+space+`, annotations: `+everywhere+`}
`, "apply", "-f", "-")
	}
	data := func(space, want string) {
		w.t.Helper()
		w.expectField(shared, world.ConfigMaps, space+"--web", "settings", want, "data", "of")
	}
	data(spaceName, spaceName)
	data("team", "team")
	w.expectField(shared, namespaces, "", "team--web", "team", "metadata", "labels", "of")
	w.expectField(shared, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "team--default", "in-default", "in-default", "metadata", "name")
	w.Eventually("without prefixes, one of the two is in conflict", func() error {
		_, first := site.Get(w.t, world.ConfigMaps, "web", "settings")
		out, err := env.Command{Binary: "orrery", Args: []string{"status", "configmap/settings", "-n", "web"}, Kubeconfig: team}.Try(w.t)
		if !strings.Contains(out, "Conflict") {
			return errors.Join(fmt.Errorf("orrery status prints\n%s", out), err, first)
		}
		return first
	})
	w.refusesClusterScoped()
	if out := env.KubectlFails(w.t, w.Root, "patch", "location", "shared", "--type=merge", "-p", `{"spec":{"namespaces":"Same"}}`); !strings.Contains(out, "spec.namespaces") {
		w.t.Errorf("changed: %s", out)
	}
	w.Invariants()

	// Drift and deletions while the hub is stopped, and an agent that starts meanwhile.
	settings := func(s string) *unstructured.Unstructured {
		w.t.Helper()
		u, err := shared.Get(w.t, world.ConfigMaps, s+"--web", "settings")
		if err != nil {
			w.t.Fatal(err)
		}
		return u
	}
	theirs := settings("team")
	w.Hub.Stop()
	env.Kubectl(w.t, site.Cluster.Kubeconfig, "patch", "configmap", "settings", "-n", spaceName+"--web", "--type=merge", "-p", `{"data":{"of":"drifted"}}`)
	data(spaceName, spaceName)
	shared.Agent.Restart()
	env.Kubectl(w.t, site.Cluster.Kubeconfig, "delete", "configmap", "settings", "-n", spaceName+"--web")
	data(spaceName, spaceName)
	w.Hub.Start()
	w.kubectl("patch", "configmap", "settings", "-n", "web", "--type=merge", "-p", `{"data":{"of":"changed"}}`)
	data(spaceName, "changed")
	w.kubectl("delete", "configmap", "settings", "-n", "web")
	w.Eventually("it leaves", func() error { return isGone(shared.Get(w.t, world.ConfigMaps, spaceName+"--web", "settings")) })
	w.kubectl("delete", "namespace", "web")
	w.Eventually("its namespace leaves", func() error { return isGone(shared.Get(w.t, namespaces, "", spaceName+"--web")) })
	if now := settings("team"); now.GetUID() != theirs.GetUID() || now.GetResourceVersion() != theirs.GetResourceVersion() {
		w.t.Errorf("the one of the other space was touched: %v, then %v", theirs, now)
	}
	w.Invariants()
	env.Orrery(w.t, w.Root, "location", "remove", "shared", "--purge")
	if err := isGone(shared.Get(w.t, world.ConfigMaps, "team--web", "settings")); err != nil {
		w.t.Errorf("after a purge: %v", err)
	}
	delete(w.Sites, "shared")
	w.Invariants()
}

// refusesClusterScoped sees that what is in no namespace is refused where it can't be kept
// apart, with its reason, and nowhere else.
func (w *shop) refusesClusterScoped() {
	w.t.Helper()
	w.Eventually("what is in no namespace is refused", func() error {
		out, err := env.Command{Binary: "orrery", Args: []string{"status", "clusterrole/role-of-shop", "-o", "json"}, Kubeconfig: w.space}.Try(w.t)
		if strings.Count(out, `"reason": "ClusterScoped"`) != 1 || strings.Count(out, `"state": "Applied"`) != 1 {
			return errors.Join(errors.New(out), err)
		}
		return nil
	})
	why := env.Command{Binary: "orrery", Args: []string{"why", "clusterrole/role-of-shop", "--location", "shared"}, Kubeconfig: w.space}
	if out, _ := why.Try(w.t); !strings.Contains(out, "ClusterScoped: the location keeps spaces apart") {
		w.t.Errorf("orrery why says\n%s", out)
	}
}
