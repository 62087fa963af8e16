package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// chart has what Helm does not mark as a release's: a CRD in crds/ and a hook.
const chart = `
-- Chart.yaml --
apiVersion: v2
name: shop
version: 1.0.0
-- crds/widgets.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
-- templates/widget.yaml --
apiVersion: shop.example/v1
kind: Widget
metadata: {name: shop}
spec: {size: 3}
-- templates/settings.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {currency: EUR}
-- templates/shop.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      imagePullSecrets: [{name: pull}]
      containers: [{name: shop, image: registry.example/shop, envFrom: [{configMapRef: {name: settings}}, {configMapRef: {name: region}}]}]
-- templates/prepare.yaml --
apiVersion: batch/v1
kind: Job
metadata:
  name: prepare
  labels: {app.kubernetes.io/instance: "{{ .Release.Name }}"}
  annotations: {helm.sh/hook: "pre-install,pre-delete", helm.sh/hook-delete-policy: hook-succeeded}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: prepare, image: registry.example/shop, envFrom: [{secretRef: {name: database}}]}]
`

// release installs a chart as docs/placement.md says, for some sites: its CRD and what is not
// of the chart follow what is, and Helm waits for the hook that runs there, before it installs
// and before it uninstalls.
func (s *seats) release(sites ...string) {
	s.t.Helper()
	dir := s.t.TempDir()
	for _, f := range txtar.Parse([]byte(chart)).Files {
		name := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, f.Data, 0o600)); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range []string{"pull", "database", "unused"} {
		env.Kubectl(s.t, s.space, "create", "secret", "generic", name, "--from-literal=k=v")
	}
	env.Kubectl(s.t, s.space, "create", "configmap", "region")
	env.KubectlIn(s.t, s.space, strings.ReplaceAll(shownUnder(s.t, "## Helm releases"), "plant7", strings.Join(sites, ", ")), "apply", "-f", "-")
	everywhere := func(what string, want ...string) {
		s.t.Helper()
		for _, site := range sites {
			s.hasObjects(site, what, want...)
		}
	}
	const crd, hook = "apiextensions.k8s.io customresourcedefinitions/widgets.shop.example", "batch jobs/prepare"
	const deployment, region, settings, pull, widget = "apps deployments/shop", "configmaps/region", "configmaps/settings", "secrets/pull", "shop.example widgets/shop"
	ended := s.startHelm("install", "shop", dir, "--timeout=14m")
	everywhere("the hook's Job comes with what it needs", hook, "secrets/database")
	s.completes(sites, ended)
	everywhere("the release is there with what it needs, the hook is gone", crd, deployment, region, settings, pull, widget)
	ended = s.startHelm("uninstall", "shop", "--timeout=14m")
	everywhere("the hook's Job comes before anything goes", crd, deployment, hook, region, settings, "secrets/database", pull, widget)
	s.completes(sites, ended)
	everywhere("what followed the release is gone with it")
	env.Kubectl(s.t, s.space, "get", "secret/pull", "configmap/region", "crd/widgets.shop.example")
}

// startHelm runs Helm in the space, which ends with an error or none.
func (s *seats) startHelm(args ...string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := env.Command{Binary: "helm", Kubeconfig: s.space, Args: args}.Try(s.t)
		ended <- err
	}()
	return ended
}

// completes has the hook's Job come to its end at one site after the other, and shows that
// Helm waits for the last of them.
func (s *seats) completes(sites []string, ended <-chan error) {
	s.t.Helper()
	for i, site := range sites {
		if i > 0 {
			env.KubectlFails(s.t, s.space, "wait", "--for=condition=complete", "job/prepare", "--timeout=1s")
			select {
			case err := <-ended:
				s.t.Fatalf("helm did not wait for %v: %v", sites[i:], err)
			default:
			}
		}
		env.Kubectl(s.t, s.Sites[site].Cluster.Kubeconfig, "patch", "job", "prepare", "--subresource=status", "--type=merge", "-p", `{"status":{
			"startTime":"2030-01-01T00:00:00Z","completionTime":"2030-01-01T00:01:00Z","succeeded":1,"uncountedTerminatedPods":{},
			"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`)
		if i < len(sites)-1 {
			s.Eventually("the Job is through at "+site, func() error {
				out, err := env.Command{Binary: "orrery", Kubeconfig: s.space, Args: []string{"status", "job/prepare", "-o", "json"}}.Try(s.t)
				if err != nil {
					return err
				}
				if !strings.Contains(out, `"Healthy"`) {
					return fmt.Errorf("orrery status says\n%s", out)
				}
				return nil
			})
		}
	}
	if err := <-ended; err != nil {
		s.t.Fatal(err)
	}
}

// hasObjects waits until a site has exactly these objects of the release, each as
// GROUP RESOURCE/NAME.
func (s *seats) hasObjects(site, what string, want ...string) {
	s.t.Helper()
	s.Eventually(what, func() error {
		var found []string
		for _, object := range []string{
			"apiextensions.k8s.io customresourcedefinitions/widgets.shop.example", "apps deployments/shop", "batch jobs/prepare",
			"configmaps/region", "configmaps/settings", "secrets/database", "secrets/pull", "secrets/sh.helm.release.v1.shop.v1", "secrets/unused",
			"shop.example widgets/shop",
		} {
			path, name, _ := strings.Cut(object, "/")
			group, resource, isGrouped := strings.Cut(path, " ")
			if !isGrouped {
				group, resource = "", path
			}
			namespace := "default"
			if resource == "customresourcedefinitions" {
				namespace = ""
			}
			gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
			u, err := s.Sites[site].Get(s.t, gvr, namespace, name)
			switch {
			case err == nil:
				found = append(found, object)
				if err := s.collect(site, gvr, u); err != nil {
					return err
				}
			case !apierrors.IsNotFound(err):
				return err
			}
		}
		if !slices.Equal(found, want) {
			return fmt.Errorf("%s has %q, want %q", site, found, want)
		}
		return nil
	})
}

// collect removes the finalizer of a terminating workload without Pods, as a garbage collector does.
// The sites run none.
func (s *seats) collect(site string, gvr schema.GroupVersionResource, u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() == nil || !slices.Equal(u.GetFinalizers(), []string{metav1.FinalizerDeleteDependents}) {
		return nil
	}
	_, err := world.In(s.Sites[site].Client, gvr, u.GetNamespace()).Patch(s.t.Context(), u.GetName(), types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
