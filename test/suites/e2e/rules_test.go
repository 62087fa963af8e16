package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// TestRules follows docs/customizing.md on two real clusters with different properties. A
// rule is broken on purpose for one of them, which keeps what it has through restarts of
// hub and agents, and mended.
func TestRules(t *testing.T) {
	t.Parallel()
	w := newShop(t, "north", "south")
	for _, block := range manifests(t) {
		if strings.HasPrefix(block, "# locations.yaml") {
			env.KubectlIn(t, w.Root, block, "apply", "--server-side", "--force-conflicts", "-f", "-")
		} else {
			w.apply(block)
		}
	}
	north, south := w.Sites["north"], w.Sites["south"]
	hasImage := func(site, image, replicas string) {
		t.Helper()
		w.expectField(w.Sites[site], deployments, "default", "vision", replicas, "spec", "replicas")
		w.Eventually(site+" has "+image, func() error {
			u, err := w.Sites[site].Get(t, deployments, "default", "vision")
			if err != nil {
				return err
			}
			if text := fmt.Sprint(u.Object["spec"]); !strings.Contains(text, image) {
				return fmt.Errorf("it has %s", text)
			}
			return nil
		})
	}
	hasImage("north", "registry.north.example/vision:1.4", "3")
	hasImage("north", "value:gate,yard", "3")
	hasImage("south", "registry.south.example/vision:1.4", "1")
	hasImage("south", "example.com/cameras:true", "1")
	for site, cameras := range map[string]string{"north": "gate", "south": "roof"} {
		w.expectField(w.Sites[site], deployments, "default", "vision", cameras, "metadata", "annotations", "example.com/cameras")
	}
	w.expectField(north, world.ConfigMaps, "default", "site", `["gate","yard"]`, "data", "cameras.json")
	w.expectField(south, world.ConfigMaps, "default", "site", "${USER}@south", "data", "prompt")
	w.Invariants()
	w.renders("north")
	w.previews()

	// A text of a ConfigMap concerns the location that it is about.
	w.kubectl("patch", "configmap", "cameras", "--type=merge", "-p", `{"data":{"south":"nothing"}}`)
	w.Eventually("south is held for a text that is not JSON", func() error {
		errs, err := env.TryKubectl(w.t, w.space, "get", "customizer", "cameras", "-o", "jsonpath={.status.errors[*].location} {.status.errors[*].reason}")
		if err != nil {
			return err
		}
		if errs != "south RuleFailed" {
			return fmt.Errorf("errors %q", errs)
		}
		return nil
	})
	w.kubectl("patch", "configmap", "cameras", "--type=merge", "-p", `{"data":{"south":"[{\"id\":\"door\"}]"}}`)
	w.expectField(south, deployments, "default", "vision", "door", "metadata", "annotations", "example.com/cameras")

	w.summarize()
	w.sums("north Applied registry.north.example 1 2", "south Applied registry.south.example 1 2")

	// A property of another type breaks a rule at south alone.
	env.Kubectl(t, w.Root, "patch", "location", "south", "--type=merge", "-p", `{"spec":{"properties":{"registry":5}}}`)
	w.kubectl("set", "image", "deployment/vision", "vision=registry.example/vision:1.5")
	hasImage("north", "registry.north.example/vision:1.5", "3")
	held := func() {
		t.Helper()
		w.Eventually("south is held, and all say so", func() error {
			errs, err := env.TryKubectl(w.t, w.space, "get", "customizer", "sites", "-o", "jsonpath={.status.errors[*].location} {.status.errors[*].rule} {.status.errors[*].reason}")
			if err != nil {
				return err
			}
			count, err := env.TryKubectl(w.t, w.space, "get", "placement", "vision", "-o", "jsonpath={.status.held} {.status.applied}")
			if err != nil {
				return err
			}
			why, err := env.Command{Binary: "orrery", Kubeconfig: w.space, Args: []string{"why", "deployment/vision", "--location", "south"}}.Try(t)
			if err != nil {
				return err
			}
			if errs != "south 0 RuleFailed" || count != "1 1" || !strings.Contains(why, "RuleFailed: rules[0] of Customizer sites") {
				return fmt.Errorf("errors %q, counts %q, why:\n%s", errs, count, why)
			}
			return nil
		})
		hasImage("south", "registry.south.example/vision:1.4", "1")
		if out := env.OrreryFails(t, w.space, "render", "deployment/vision", "--location", "south"); !strings.Contains(out, "RuleFailed: rules[0] of Customizer sites") {
			t.Errorf("orrery render says %s", out)
		}
	}
	held()
	w.sums("north Applied registry.north.example 1 2", "south Held 5 1 2")
	w.differs()
	south.Agent.Restart()
	w.Hub.Restart()
	north.Agent.Restart()
	held()
	hasImage("north", "registry.north.example/vision:1.5", "3")

	env.Kubectl(t, w.Root, "patch", "location", "south", "--type=merge", "-p", `{"spec":{"properties":{"registry":"mended.example"}}}`)
	hasImage("south", "mended.example/vision:1.5", "1")
	w.sums("north Applied registry.north.example 1 2", "south Applied mended.example 1 2")
	w.Eventually("nothing is said any more", func() error {
		errs, err := env.TryKubectl(w.t, w.space, "get", "customizer", "sites", "-o", "jsonpath={.status.errors}")
		if err != nil {
			return err
		}
		if errs != "" {
			return fmt.Errorf("errors %s", errs)
		}
		return nil
	})
	w.Invariants()
	w.renders("south")
}

// previews shows that a dry run by kubectl prints which objects would change or move, and changes
// nothing, and that orrery why lists the changes by rules.
func (w *shop) previews() {
	w.t.Helper()
	dryRun := func(manifest, old, other, want string) {
		w.t.Helper()
		for _, block := range manifests(w.t) {
			if !strings.Contains(block, manifest) || !strings.Contains(block, old) {
				continue
			}
			args := []string{"apply", "--server-side", "--force-conflicts", "--dry-run=server", "--warnings-as-errors", "-f", "-"}
			apply := env.Command{Binary: "kubectl", Kubeconfig: w.space, Args: args, Stdin: strings.Replace(block, old, other, 1)}
			w.Eventually(want, func() error { // a busy hub omits the preview rather than delaying the response
				if out, err := apply.Try(w.t); err == nil || !strings.Contains(err.Error(), "Warning: "+want+"\n") {
					return fmt.Errorf("kubectl prints\n%s%w\nwant a warning %s", out, err, want)
				}
				return nil
			})
		}
	}
	dryRun("kind: Customizer", "orValue(self)", "orValue(self) + 1", "would change 1 object at 2 locations: north 1, south 1")
	dryRun("kind: Customizer", "properties.registry +", "properties.none +", "would fail for 1 object at 2 locations, which keep what they have: north 1, south 1")
	dryRun("kind: Placement", "locations: [{selector: {}}]", "locations: [{names: [north]}]", "would remove 1 object from 1 location: south -1")
	why := env.Orrery(w.t, w.space, "why", "deployment/vision", "--location", "north")
	if !strings.Contains(why, "$.spec.replicas: 2 -> 3\n") {
		w.t.Errorf("orrery why prints\n%s", why)
	}
}

// differs checks orrery diff. While north is paused, its Deployment is edited in the cluster; south
// does not change.
func (w *shop) differs() {
	w.t.Helper()
	diff := func(location string) (string, error) {
		return env.Command{Binary: "orrery", Kubeconfig: w.space, Args: []string{"diff", "deployment/vision", "--location", location}}.Try(w.t)
	}
	same := func(location string) {
		w.t.Helper()
		w.Eventually(location+" has what it should", func() error {
			_, err := diff(location)
			return err
		})
	}
	same("north")
	same("south")
	pause := func(mapping string) {
		env.Kubectl(w.t, w.Root, "patch", "location", "north", "--type=merge", "-p", `{"spec":{"mapping":"`+mapping+`"}}`)
	}
	pause("Paused")
	w.Eventually("north is paused", func() error {
		halted, err := env.TryKubectl(w.t, w.Root, "get", "location", "north", "-o", "jsonpath={.status.agent.halted}")
		if err != nil {
			return err
		}
		if halted == "" {
			return errors.New("its agent is not")
		}
		return nil
	})
	env.Kubectl(w.t, w.Sites["north"].Cluster.Kubeconfig, "scale", "deployment", "vision", "-n", "default", "--replicas=7")
	w.Eventually("orrery diff shows the edit in the cluster", func() error { // the answer of an agent may arrive too late
		out, err := diff("north")
		if err == nil || !strings.Contains(out, "-  replicas: 7\n+  replicas: 3\n") || strings.Contains(out, "terminationMessagePath") {
			return fmt.Errorf("orrery diff prints %w:\n%s", err, out)
		}
		return nil
	})
	same("south")
	pause("Active")
	same("north")
}

// manifests are the manifests of docs/customizing.md.
func manifests(t *testing.T) (all []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/customizing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		all = append(all, string(match[1]))
	}
	if len(all) == 0 {
		t.Fatal("docs/customizing.md has no manifests")
	}
	return all
}

// renders compares the output of orrery render for the stored Deployment and for a file with the
// object in the view of the location, byte by byte apart from the ownership metadata.
func (w *shop) renders(location string) {
	w.t.Helper()
	var view map[string]any
	out := env.Kubectl(w.t, w.Hub.PathKubeconfig("views/locations/"+location), "get", "deployment", "vision", "-n", "default", "-o", "json")
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		w.t.Fatal(err)
	}
	metadata, _ := view["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	for _, kind := range []string{"labels", "annotations"} {
		values, _ := metadata[kind].(map[string]any)
		for name := range values {
			if strings.HasPrefix(name, "orrery.dev/") {
				delete(values, name)
			}
		}
		if len(values) == 0 {
			delete(metadata, kind)
		}
	}
	want, err := json.Marshal(view)
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.t.TempDir(), "vision.yaml")
	if err := os.WriteFile(file, []byte(w.kubectl("get", "deployment", "vision", "-o", "yaml", "--show-managed-fields=false")), 0o600); err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	// As a user has it in a file: without what the space has added.
	bare := regexp.MustCompile(`(?m)^  (uid|resourceVersion|generation|creationTimestamp): .*\n`).ReplaceAllString(string(text), "")
	if err := os.WriteFile(file, []byte(bare), 0o600); err != nil {
		w.t.Fatal(err)
	}
	for _, args := range [][]string{{"deployment/vision"}, {"-f", file}} {
		got := env.Orrery(w.t, w.space, append([]string{"render", "--location", location, "-o", "json"}, args...)...)
		if strings.TrimSpace(got) != string(want) {
			w.t.Errorf("orrery render %v shows\n%s\nthe view has\n%s", args, got, want)
		}
	}
	all := env.Orrery(w.t, w.space, "render", "deployment/vision", "--all-locations")
	if !strings.Contains(all, "# north\n") || !strings.Contains(all, "# south\n") || strings.Count(all, "\n---") != 2 {
		w.t.Errorf("orrery render --all-locations shows\n%s", all)
	}
}
