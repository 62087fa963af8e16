package clients

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"orrery.dev/orrery/test/support/env"
)

// set is what a Kustomization may have: a kind and an object of it, a namespace and
// what is in it.
const set = `
apiVersion: v1
kind: Namespace
metadata: {name: store}
---` + campaigns + `---
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
kind: Secret
metadata: {name: door, namespace: store}
stringData: {key: "1234"}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: store}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: store}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: shop.example/web:1, ports: [{containerPort: 80}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: store}
spec:
  schedule: "0 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: report, image: shop.example/report:1}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: store}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 5
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: store-reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`

// TestFlux shows that Flux's apply engine applies a set in stages, sees that nothing has
// changed, corrects drift, reports differences, and prunes.
func TestFlux(t *testing.T) {
	s := newSpace(t)
	m := fluxManager(t, s.config())
	objects := fluxObjects(t, set)
	m.SetOwnerLabels(objects, "store", "flux-system")
	ctx := t.Context()

	changes, err := m.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	if err != nil {
		t.Fatal(err)
	}
	only(t, changes, ssa.CreatedAction)
	if changes, err = m.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions()); err != nil {
		t.Fatal(err)
	}
	only(t, changes, ssa.UnchangedAction)

	t.Run("drift", func(t *testing.T) { fluxDrift(t, s, m, objects) })
	t.Run("wait", func(t *testing.T) { fluxWait(t, m, objects) })
	t.Run("immutable", func(t *testing.T) { fluxImmutable(t, m) })
	t.Run("prune", func(t *testing.T) {
		stale := objects[len(objects)-3:]
		deleted, err := m.DeleteAll(ctx, stale, ssa.DefaultDeleteOptions())
		if err != nil {
			t.Fatal(err)
		}
		only(t, deleted, ssa.DeletedAction)
		if err := m.WaitForTermination(objects[len(objects)-3:], ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: soon}); err != nil {
			t.Fatal(err)
		}
		// Flux removes the other objects together with their namespace or their CRD.
		if _, err := m.DeleteAll(ctx, objects, ssa.DefaultDeleteOptions()); err != nil {
			t.Fatal(err)
		}
		if err := m.WaitForTermination(objects, ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: soon}); err != nil {
			t.Fatal(err)
		}
	})
}

// fluxDrift edits what was applied: with kubectl edit, and by another applier.
func fluxDrift(t *testing.T, s *space, m *ssa.ResourceManager, objects []*unstructured.Unstructured) {
	deployment := find(t, objects, "Deployment")
	env.Kubectl(t, s.kubeconfig, "-n", "store", "scale", "deployment", "web", "--replicas=7")
	env.Kubectl(t, s.kubeconfig, "-n", "store", "set", "image", "deployment/web", "web=other", "--field-manager=someone")
	change, _, merged, err := m.Diff(t.Context(), deployment.DeepCopy(), ssa.DefaultDiffOptions())
	if err != nil {
		t.Fatal(err)
	}
	if change.Action != ssa.ConfiguredAction {
		t.Errorf("the difference is %q, want %q", change.Action, ssa.ConfiguredAction)
	}
	if n, _, _ := unstructured.NestedInt64(merged.Object, "spec", "replicas"); n != 2 {
		t.Errorf("it would have %d replicas, want 2", n)
	}
	options := ssa.DefaultApplyOptions()
	options.Cleanup.FieldManagers = []ssa.FieldManager{{Name: "someone", OperationType: metav1.ManagedFieldsOperationUpdate}}
	changes, err := m.ApplyAllStaged(t.Context(), objects, options)
	if err != nil {
		t.Fatal(err)
	}
	for subject, action := range changes.ToMap() {
		want := ssa.UnchangedAction
		if subject == "Deployment/store/web" {
			want = ssa.ConfiguredAction
		}
		if action != want {
			t.Errorf("%s is %s, want %s", subject, action, want)
		}
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(deployment.GroupVersionKind())
	if err := m.Client().Get(t.Context(), client.ObjectKeyFromObject(deployment), live); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas"); n != 2 {
		t.Errorf("it has %d replicas, want 2", n)
	}
	for _, f := range live.GetManagedFields() {
		if f.Manager == "someone" {
			t.Errorf("%q still manages fields", f.Manager)
		}
	}
}

// fluxWait shows what waiting does where nothing acts: what has no status of its own is
// ready at once, workloads are not.
func fluxWait(t *testing.T, m *ssa.ResourceManager, objects []*unstructured.Unstructured) {
	inert := []*unstructured.Unstructured{find(t, objects, "Deployment")}
	others := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		switch o.GetKind() {
		case "Deployment", "HorizontalPodAutoscaler":
		default:
			others = append(others, o)
		}
	}
	if err := m.Wait(others, ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: soon}); err != nil {
		t.Error(err)
	}
	err := m.Wait(inert, ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: 30 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "Deployment/store/web status: 'InProgress'") {
		t.Errorf("waiting for a Deployment: %v", err)
	}
}

// fluxImmutable changes what can't be changed, which only force does, by making the
// object anew.
func fluxImmutable(t *testing.T, m *ssa.ResourceManager) {
	object := func(value string) *unstructured.Unstructured {
		return fluxObjects(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed, namespace: store}, immutable: true, data: {a: "`+value+`"}}`)[0]
	}
	if _, err := m.Apply(t.Context(), object("1"), ssa.DefaultApplyOptions()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Apply(t.Context(), object("2"), ssa.DefaultApplyOptions()); err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("changing what is immutable: %v", err)
	}
	change, err := m.Apply(t.Context(), object("2"), ssa.ApplyOptions{Force: true, WaitInterval: 100 * time.Millisecond, WaitTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	if change.Action != ssa.CreatedAction {
		t.Errorf("it is %s, want %s", change.Action, ssa.CreatedAction)
	}
}

func fluxManager(t *testing.T, config *rest.Config) *ssa.ResourceManager {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	restMapping, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Mapper: restMapping})
	if err != nil {
		t.Fatal(err)
	}
	poller := polling.NewStatusPoller(c, restMapping, polling.Options{})
	return ssa.NewResourceManager(c, poller, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
}

// fluxObjects reads YAML as Flux does.
func fluxObjects(t *testing.T, yaml string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := utils.ReadObjects(strings.NewReader(yaml))
	if err != nil {
		t.Fatal(err)
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		t.Fatal(err)
	}
	return objects
}

// only checks that the same was done with all of them.
func only(t *testing.T, changes *ssa.ChangeSet, want ssa.Action) {
	t.Helper()
	for _, e := range changes.Entries {
		if e.Action != want {
			t.Errorf("%s, want %s", e, want)
		}
	}
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind {
			return o
		}
	}
	t.Fatalf("there is no %s", kind)
	return nil
}
