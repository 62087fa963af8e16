// Package argo shows that Argo CD's apply engine works with a space as it does with a
// cluster. It knows nothing of Orrery but its command line.
package argo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/test/support/env"
)

// soon is how long what the test waits for may take on a busy machine.
const soon = env.Soon

// ours marks what the test has applied, as Argo CD marks what an Application has.
const ours = "app.kubernetes.io/instance"

const application = `
apiVersion: v1
kind: Namespace
metadata: {name: store}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: campaigns.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {kind: Campaign, plural: campaigns}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {product: {type: string}, discount: {type: integer, default: 10}}}
---
apiVersion: shop.example/v1
kind: Campaign
metadata: {name: spring, namespace: store}
spec: {product: telescope}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: site, namespace: store}
data: {greeting: hello}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: store}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80}]
`

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: store}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: shop.example/web:1}]}
`

// TestEngine shows that the engine applies an application with a kind and an object of it
// in one go, by both kinds of apply, that its cache follows what others do, and that it
// puts that right and prunes.
func TestEngine(t *testing.T) {
	t.Setenv("KUBECACHEDIR", t.TempDir()) // where the engine keeps what it discovers
	hub := env.StartHub(t)
	for _, serverSide := range []bool{false, true} {
		t.Run(fmt.Sprintf("serverSide=%t", serverSide), func(t *testing.T) {
			space := fmt.Sprintf("shop-%t", serverSide)
			env.CreateSpace(t, hub.Kubeconfig, space)
			e := newArgo(t, hub, space, serverSide)
			manifests := application + "---" + deployment

			// The engine reads the kinds before its sync, so an object of a new kind
			// fails the first time, at a cluster, too; Argo CD tries again.
			e.sync(t, "all is new", manifests, "", "", "Campaign")
			e.sync(t, "the rest", manifests, "", "")
			e.sync(t, "nothing has changed", manifests, "unchanged", "serverside-applied")

			env.Kubectl(t, e.kubeconfig, "-n", "store", "scale", "deployment", "web", "--replicas=7")
			env.Kubectl(t, e.kubeconfig, "-n", "store", "delete", "configmap", "site")
			e.cacheHas(t, "ConfigMap", "site", false)
			e.sync(t, "drift", manifests, "", "")
			if n := env.Kubectl(t, e.kubeconfig, "-n", "store", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"); n != "2" {
				t.Errorf("it has %s replicas, want 2", n)
			}
			e.cacheHas(t, "ConfigMap", "site", true)

			e.sync(t, "one image changes", strings.Replace(manifests, "web:1", "web:2", 1), "", "")
			e.healthOf(t)
			e.sync(t, "the deployment goes", application, "", "")
			e.cacheHas(t, "Deployment", "web", false)
			// With its namespace, some of it goes before the engine comes to it.
			e.sync(t, "all goes", "", "", "", "Campaign", "ConfigMap", "Service")
			env.Eventually(t, soon, func() error {
				if left := e.cache.FindResources("store"); len(left) > 0 {
					return fmt.Errorf("%d objects are left", len(left))
				}
				return nil
			})
		})
	}
}

// argo is the engine with its cache, at a space.
type argo struct {
	kubeconfig string
	cache      cache.ClusterCache
	engine     engine.GitOpsEngine
	serverSide bool
}

func newArgo(t *testing.T, hub *env.Hub, space string, serverSide bool) *argo {
	t.Helper()
	config := hub.PathConfig("spaces/" + space)
	// As in Argo CD: the cache keeps the manifests of what is ours.
	keep := func(u *unstructured.Unstructured, _ bool) (any, bool) {
		return u.GetLabels()[ours] != "", u.GetLabels()[ours] != ""
	}
	clusterCache := cache.NewClusterCache(config, cache.SetLogr(logr.Discard()), cache.SetPopulateResourceInfoHandler(keep))
	e := engine.NewEngine(config, clusterCache, engine.WithLogr(logr.Discard()))
	stop, err := e.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return &argo{kubeconfig: hub.PathKubeconfig("spaces/" + space), cache: clusterCache, engine: e, serverSide: serverSide}
}

// sync makes the space what the manifests say, and checks what the engine says of each
// object: "" is anything but a failure, which those of some kinds may be.
func (a *argo) sync(t *testing.T, what, manifests, clientSide, serverSide string, mayFail ...string) {
	t.Helper()
	want := clientSide
	if a.serverSide {
		want = serverSide
	}
	objects, err := kube.SplitYAML([]byte(manifests))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		o.SetLabels(map[string]string{ours: "shop"})
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	start := time.Now()
	results, err := a.engine.Sync(ctx, objects, func(r *cache.Resource) bool { return r.Info == true }, "1", "default",
		sync.WithPrune(true), sync.WithServerSideApply(a.serverSide), sync.WithServerSideApplyManager("argocd-controller"),
		sync.WithManifestValidation(true), sync.WithLogr(logr.Discard()))
	if err != nil {
		t.Fatalf("%s: %v: %+v", what, err, results)
	}
	t.Logf("%s: %d results after %s", what, len(results), time.Since(start).Round(10*time.Millisecond))
	for _, r := range results {
		if slices.Contains(mayFail, r.ResourceKey.Kind) {
			continue
		}
		if r.Status == common.ResultCodeSyncFailed || !strings.HasSuffix(r.Message, want) {
			t.Errorf("%s: %s is %s, want %q", what, r.ResourceKey.String(), r.Message, want)
		}
	}
}

// cacheHas waits until the engine's cache, which watches every kind, has an object of
// the store or has it no longer.
func (a *argo) cacheHas(t *testing.T, kind, name string, want bool) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		found := a.cache.FindResources("store", func(r *cache.Resource) bool { return r.Ref.Kind == kind && r.Ref.Name == name })
		if len(found) > 0 != want {
			return fmt.Errorf("the cache has %s %s: %t, want %t", kind, name, len(found) > 0, want)
		}
		return nil
	})
}

// healthOf checks the health that Argo CD shows for objects in a space: an object of a kind without
// a status is Healthy, and a workload is Progressing until its status is returned.
func (a *argo) healthOf(t *testing.T) {
	t.Helper()
	live, err := a.cache.GetManagedLiveObjs(nil, func(r *cache.Resource) bool { return r.Info == true })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]health.HealthStatusCode{"Deployment": health.HealthStatusProgressing, "Service": health.HealthStatusHealthy}
	seen := 0
	for key, o := range live {
		h, err := health.GetResourceHealth(o, nil)
		if err != nil {
			t.Error(err)
		}
		var got health.HealthStatusCode
		if h != nil {
			got = h.Status
		}
		if got != want[key.Kind] {
			t.Errorf("%s is %q, want %q", key.String(), got, want[key.Kind])
		}
		seen++
	}
	if seen < 6 {
		t.Errorf("the cache has %d objects of the application", seen)
	}
}
