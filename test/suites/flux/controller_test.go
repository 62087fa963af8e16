//go:build soak

package flux

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/rollout"
	"orrery.dev/orrery/test/support/world"
)

// module is the module that builds kustomize-controller.
const module = "../../support/flux"

// TestKustomizeController runs kustomize-controller, whose own objects are in one space, and which applies
// artifacts to another space. It is Ready at a revision only when the site is as desired. It replaces
// immutable objects if force is set, and prunes.
func TestKustomizeController(t *testing.T) {
	w := world.New(t, "--heartbeat=1s", "--disconnected-after=3s")
	k := &kustomization{t: t, w: w, fleet: w.AddSpace("fleet"), shop: w.AddSpace("shop"), artifacts: newArtifacts(t)}
	site := w.Join("edge", nil, env.APIOnly())
	k.start()

	k.publish("v1", rollout.Everywhere, rollout.Objects("flux", "1"), fixed("1"))
	k.create()
	k.unhealthy("v1")
	rollout.Finish(t, w, site, "flux", "1")
	k.ready("v1")

	env.Orrery(t, w.Root, "location", "pause", "edge")
	w.Eventually("the agent has halted", func() error {
		if halted := env.Kubectl(t, w.Root, "get", "location", "edge", "-o", "jsonpath={.status.agent.halted}"); halted == "" {
			return errors.New("it has not")
		}
		return nil
	})
	k.publish("v2", rollout.Everywhere, rollout.Objects("flux", "2"), fixed("1"))
	k.unhealthy("v2")
	env.Orrery(t, w.Root, "location", "resume", "edge")
	rollout.Finish(t, w, site, "flux", "2")
	k.ready("v2")

	site.Agent.Kill()
	for _, kind := range []string{"deployment", "gizmo"} {
		w.Eventually(kind+" is Reconciling", func() error {
			status := env.Kubectl(t, k.shop, "get", kind, "flux", "-o", "jsonpath={.status}")
			if !strings.Contains(status, `"Reconciling"`) {
				return errors.New(status)
			}
			return nil
		})
	}
	k.publish("v3", rollout.Everywhere, rollout.Objects("flux", "2"), fixed("1"))
	k.unhealthy("v3")
	site.Agent.Start()
	k.ready("v3")

	k.publish("v4", rollout.Everywhere, rollout.Objects("flux", "2"), fixed("2"))
	k.condition("Ready", "False", "ReconciliationFailed", "immutable")
	k.patch(`{"spec":{"force":true}}`)
	k.ready("v4")
	w.Eventually("the site has the new ConfigMap", func() error {
		o, err := site.Get(t, world.ConfigMaps, metav1.NamespaceDefault, "fixed")
		if err != nil {
			return err
		}
		if data := fmt.Sprint(o.Object["data"]); data != "map[value:2]" {
			return errors.New(data)
		}
		return nil
	})

	k.publish("v5", rollout.Everywhere, fixed("2"))
	k.ready("v5")
	w.Eventually("the site deletes the Deployment", func() error { return collect(t, site) })
	k.absent(site, "flux")
	env.Kubectl(t, k.fleet, "delete", "kustomization", "shop")
	k.absent(site, "fixed")
	w.Invariants()
}

// fixed returns YAML of an immutable ConfigMap.
func fixed(value string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed, namespace: default, labels: {for: edge}}
immutable: true
data: {value: %q}
`, value)
}

// kustomization is the Kustomization shop, which applies artifacts to a space.
type kustomization struct {
	t           *testing.T
	w           *world.World
	fleet, shop string // kubeconfigs of the space with the objects of Flux, and of the other space
	artifacts   *artifacts
}

// start runs kustomize-controller.
func (k *kustomization) start() {
	k.t.Helper()
	for _, kind := range []string{"GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"} {
		env.KubectlIn(k.t, k.fleet, sourceDefinition(kind), "apply", "-f", "-")
	}
	env.Kubectl(k.t, k.fleet, "apply", "--server-side", "-f", filepath.Join(moduleDir(k.t), "config", "crd", "bases"))
	env.Kubectl(k.t, k.fleet, "wait", "crd", "--all", "--for=condition=Established", limit.Flag())
	env.Kubectl(k.t, k.fleet, "create", "secret", "generic", "shop", "--from-file=value="+k.shop)
	env.StartController(k.t, "kustomize-controller", k.fleet,
		"--metrics-addr=0", "--health-addr=0", "--feature-gates=ExternalArtifact=true", "--requeue-dependency=1s")
}

// moduleDir returns the folder of the module of kustomize-controller, which has its CRDs.
func moduleDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "-C", module, "list", "-m", "-f", "{{.Dir}}", "github.com/fluxcd/kustomize-controller").Output()
	if err != nil {
		t.Fatalf("find the module of kustomize-controller: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// sourceDefinition returns a CRD of a kind of sources, without its schema. Flux installs these CRDs with
// source-controller, which the test does not run: it publishes an artifact itself.
func sourceDefinition(kind string) string {
	plural := strings.TrimSuffix(strings.ToLower(kind), "y") + "s"
	if strings.HasSuffix(kind, "y") {
		plural = strings.TrimSuffix(strings.ToLower(kind), "y") + "ies"
	}
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.source.toolkit.fluxcd.io}
spec:
  group: source.toolkit.fluxcd.io
  scope: Namespaced
  names: {plural: %[1]s, singular: %[2]s, kind: %[3]s, listKind: %[3]sList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true},
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`, plural, strings.ToLower(kind), kind)
}

// publish makes objects the present revision of the artifact.
func (k *kustomization) publish(revision string, objects ...string) {
	k.t.Helper()
	url, digest := k.artifacts.add(k.t, revision, strings.Join(objects, "---\n"))
	env.KubectlIn(k.t, k.fleet, `{apiVersion: source.toolkit.fluxcd.io/v1, kind: ExternalArtifact, metadata: {name: shop, namespace: default}}`, "apply", "-f", "-")
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"artifact": map[string]any{"path": revision, "url": url, "revision": revision, "digest": digest, "lastUpdateTime": metav1.Now()},
		"conditions": []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: revision, LastTransitionTime: metav1.Now()},
		},
	}})
	if err != nil {
		k.t.Fatal(err)
	}
	env.Kubectl(k.t, k.fleet, "patch", "externalartifact", "shop", "--subresource=status", "--type=merge", "-p", string(status))
}

// create creates the Kustomization.
func (k *kustomization) create() {
	k.t.Helper()
	env.KubectlIn(k.t, k.fleet, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: default}
spec:
  interval: 1h
  retryInterval: 2s
  timeout: 10s
  wait: true
  prune: true
  path: ./
  sourceRef: {kind: ExternalArtifact, name: shop}
  kubeConfig: {secretRef: {name: shop}}
`, "apply", "-f", "-")
}

func (k *kustomization) patch(patch string) {
	k.t.Helper()
	env.Kubectl(k.t, k.fleet, "patch", "kustomization", "shop", "--type=merge", "-p", patch)
}

// status is the part of the status of a Kustomization that the tests read.
type status struct {
	Conditions            []metav1.Condition
	LastAppliedRevision   string
	LastAttemptedRevision string
}

func (k *kustomization) status() (status, error) {
	var s struct{ Status status }
	out, err := env.TryKubectl(k.t, k.fleet, "get", "kustomization", "shop", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	return s.Status, err
}

// condition waits until the Kustomization has a condition.
func (k *kustomization) condition(kind, value, reason, message string) {
	k.t.Helper()
	k.w.Eventually(fmt.Sprintf("%s is %s, %s", kind, value, reason), func() error {
		s, err := k.status()
		if err != nil {
			return err
		}
		for _, c := range s.Conditions {
			if c.Type == kind && string(c.Status) == value && c.Reason == reason && strings.Contains(c.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("%+v", s)
	})
}

// unhealthy waits until a revision is applied to the space and was found to be in progress. The
// revision must not be Ready.
func (k *kustomization) unhealthy(revision string) {
	k.t.Helper()
	k.w.Eventually(revision+" is in progress", func() error {
		s, err := k.status()
		if err != nil {
			return err
		}
		if s.LastAppliedRevision == revision {
			k.t.Fatalf("%s is Ready before the site is as desired: %+v", revision, s)
		}
		for _, c := range s.Conditions {
			if c.Type == "Ready" && c.Reason == "HealthCheckFailed" && strings.Contains(c.Message, "InProgress") && s.LastAttemptedRevision == revision {
				return nil
			}
		}
		return fmt.Errorf("%+v", s)
	})
}

// ready waits until a revision is Ready.
func (k *kustomization) ready(revision string) {
	k.t.Helper()
	k.condition("Ready", "True", "ReconciliationSucceeded", revision)
}

// collect does what the garbage collector does, which this cluster does not run: it ends the deletion of
// the Deployment, which has no Pods.
func collect(t *testing.T, site *world.Site) error {
	deployments := site.Client.Resource(world.Deployments).Namespace(metav1.NamespaceDefault)
	o, err := deployments.Get(t.Context(), "flux", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if o.GetDeletionTimestamp() == nil {
		return errors.New("its deletion has not begun")
	}
	_, err = deployments.Patch(t.Context(), "flux", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}

// absent waits until the objects of a name have gone from the site and from the space.
func (k *kustomization) absent(site *world.Site, name string) {
	k.t.Helper()
	shop := world.Dynamic(k.t, k.w.Hub.PathConfig("spaces/shop"))
	for _, resource := range []schema.GroupVersionResource{world.Deployments, rollout.Gizmos, world.ConfigMaps} {
		for place, c := range map[string]dynamic.Interface{"space": shop, "site": site.Client} {
			k.w.Eventually(fmt.Sprintf("%s %s has gone from the %s", resource.Resource, name, place), func() error {
				o, err := c.Resource(resource).Namespace(metav1.NamespaceDefault).Get(k.t.Context(), name, metav1.GetOptions{})
				switch {
				case apierrors.IsNotFound(err):
					return nil
				case err != nil:
					return err
				}
				return fmt.Errorf("it is there: %v", o.Object["metadata"])
			})
		}
	}
}

// artifacts serves archives over HTTP, as a controller of sources does.
type artifacts struct {
	url string

	mu    sync.Mutex
	files map[string][]byte
}

func newArtifacts(t *testing.T) *artifacts {
	a := &artifacts{files: map[string][]byte{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *artifacts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	file, ok := a.files[strings.TrimPrefix(r.URL.Path, "/")]
	a.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(file) // the client checks the digest
}

// add adds an archive of one file, and returns its URL and digest.
func (a *artifacts) add(t *testing.T, revision, content string) (url, digest string) {
	t.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	archive := tar.NewWriter(zip)
	err := archive.WriteHeader(&tar.Header{Name: "objects.yaml", Mode: 0o600, Size: int64(len(content)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = archive.Write([]byte(content))
	}
	if err = errors.Join(err, archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := revision + ".tar.gz"
	a.files[name] = buf.Bytes()
	return a.url + "/" + name, fmt.Sprintf("sha256:%x", sha256.Sum256(buf.Bytes()))
}
