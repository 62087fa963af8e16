package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery.dev/orrery/test/env"
	"orrery.dev/orrery/test/world"
)

const webYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example/web:1"}]}
`

// TestKubectl uses a space as one uses a cluster.
func TestKubectl(t *testing.T) {
	hub := env.StartHub(t)
	env.Orrery(t, hub.Kubeconfig, "space", "create", spaceName)
	w := shopAt(t, hub)
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(yaml string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prints := func(want string, args ...string) {
		t.Helper()
		if out := w.kubectl(args...); !strings.Contains(out, want) {
			t.Errorf("kubectl %s printed:\n%s\nwant %q in it", strings.Join(args, " "), out, want)
		}
	}
	write(webYAML)
	watch := env.StartKubectl(t, w.space, "get", "deployments", "-w", "--output-watch-events")

	prints("created", "apply", "-f", file)
	prints("unchanged", "apply", "-f", file)
	prints("serverside-applied", "apply", "--server-side", "--force-conflicts", "-f", file)
	write(strings.Replace(webYAML, "replicas: 2", "replicas: 4", 1))
	out, err := env.TryKubectl(t, w.space, "diff", "-f", file)
	if err == nil || !strings.Contains(out, "replicas: 4") {
		t.Errorf("diff printed %q, %v; want a difference and exit code 1", out, err)
	}
	prints("configured", "apply", "-f", file)
	prints("4", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
	prints("READY", "get", "deploy")
	prints("registry.example/web:1", "get", "deploy", "-o", "wide")
	prints("scaled", "scale", "deployment/web", "--replicas=6")
	prints("patched", "patch", "deployment", "web", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.example/web:2"}]}}}}`)
	prints("patched", "patch", "deployment", "web", "--type=merge", "-p", `{"metadata":{"labels":{"tier":"front"}}}`)
	prints("patched", "patch", "deployment", "web", "--type=json", "-p", `[{"op":"replace","path":"/spec/replicas","value":1}]`)
	prints("registry.example/web:2 1 front", "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image} {.spec.replicas} {.metadata.labels.tier}")
	prints("patched", "patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"replicas":1,"readyReplicas":1}}`)
	prints("1/1", "get", "deployment", "web")
	prints("Replicas:", "describe", "deployment", "web")
	prints("KIND:       Deployment", "explain", "deployment.spec.strategy")
	prints("returnStatus", "explain", "placement.spec.downsync")
	prints("deployments", "api-resources")
	prints("orrery.dev/v1alpha1", "api-versions")
	prints("replaced", "replace", "-f", file)
	prints("labeled", "label", "deployment", "web", "x=y")
	prints("annotated", "annotate", "deployment", "web", "x=y")
	prints("created", "create", "configmap", "settings", "--from-literal=a=b")
	prints("created", "create", "secret", "generic", "password", "--from-literal=a=b")
	prints("Yg==", "get", "secret", "password", "-o", "jsonpath={.data.a}")
	prints("deleted", "delete", "-f", file)
	prints("deleted", "delete", "configmap", "settings", "--wait")
	prints("deleted", "delete", "secrets", "--all")
	w.kubectl("create", "namespace", "shortlived")
	w.kubectl("-n", "shortlived", "create", "configmap", "inside")
	prints("deleted", "delete", "namespace", "shortlived") // waits until it is gone

	w.Eventually("the watch shows the whole life", func() error {
		seen := watch.Stdout()
		for _, want := range []string{"ADDED", "MODIFIED", "DELETED"} {
			if !strings.Contains(seen, want) {
				return fmt.Errorf("kubectl get -w printed %q", seen)
			}
		}
		return nil
	})
}

// TestDirectAssignment places an object by its own annotation.
func TestDirectAssignment(t *testing.T) {
	w := newShop(t, "north")
	north := w.Sites["north"]
	w.kubectl("create", "configmap", "direct", "--from-literal=a=b")
	w.kubectl("annotate", "configmap", "direct", `orrery.dev/assigned-locations=["north","nowhere"]`)
	w.expectField(north, world.ConfigMaps, "default", "direct", "map[a:b]", "data")
	w.Invariants()
	why := env.Orrery(t, w.space, "why", "configmap/direct", "--location", "north")
	if !strings.Contains(why, "orrery.dev/assigned-locations") {
		t.Errorf("orrery why printed:\n%s", why)
	}
	w.kubectl("annotate", "configmap", "direct", "orrery.dev/assigned-locations-")
	w.Eventually("it leaves", func() error { return isGone(north.Get(t, world.ConfigMaps, "default", "direct")) })
	w.Invariants()
}
