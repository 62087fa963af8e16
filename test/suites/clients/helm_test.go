package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/test/support/env"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// inert is the flag that a user of a space without a location gives to Helm, as
// docs/spaces.md says: hooks would wait for Jobs that never run.
const inert = "--no-hooks"

// TestHelmKyverno takes a chart with large CRDs, webhooks and hooks through install,
// upgrade, rollback and uninstall.
func TestHelmKyverno(t *testing.T) {
	s := newSpace(t)
	chart := kyvernoChart(t)
	before := s.hub.Usage()

	s.timed(t, "install", func() {
		s.helm(t, "install", "kyverno", chart, "--namespace=kyverno", "--create-namespace", inert)
	})
	s.same(t, s.helm(t, "get", "manifest", "kyverno", "--namespace=kyverno"))
	policy(t, s)
	deployment := func() (replicas string) {
		return env.Kubectl(t, s.kubeconfig, "-n", "kyverno", "get", "deployment", "kyverno-admission-controller", "-o", "jsonpath={.spec.replicas}")
	}
	first := deployment()

	s.timed(t, "upgrade", func() {
		s.helm(t, "upgrade", "kyverno", chart, "--namespace=kyverno", inert, "--set=admissionController.replicas=3")
	})
	if n := deployment(); n != "3" {
		t.Errorf("after the upgrade there are %s replicas, want 3", n)
	}
	s.timed(t, "rollback", func() { s.helm(t, "rollback", "kyverno", "1", "--namespace=kyverno", inert) })
	if n := deployment(); n != first {
		t.Errorf("after the rollback there are %q replicas, want %q", n, first)
	}
	if h := s.history(t, "kyverno"); h != "1 superseded, 2 superseded, 3 deployed" {
		t.Errorf("the history is %s", h)
	}
	after := s.hub.Usage()
	t.Logf("the hub: %d MiB of its own before, %d MiB with the chart in three revisions; CPU %s",
		before.RSSAnon>>20, after.RSSAnon>>20, (after.CPU - before.CPU).Round(10*time.Millisecond))

	// A hook's Job does not end by itself. On a busy machine Helm takes long until it waits for that.
	for timeout := 30 * time.Second; ; timeout *= 2 {
		output := s.helmFails(t, "uninstall", "kyverno", "--namespace=kyverno", "--timeout="+timeout.String())
		if strings.Contains(output, "resource Job/kyverno/kyverno-scale-to-zero not ready") && strings.Contains(output, "context deadline exceeded") {
			break
		}
		if timeout > soon {
			t.Fatalf("within %s, helm uninstall does not get as far as waiting for the Job; it prints\n%s", timeout, output)
		}
		t.Logf("within %s, helm uninstall does not get as far as waiting for the Job; it prints\n%s", timeout, output)
	}
	s.timed(t, "uninstall", func() { s.helm(t, "uninstall", "kyverno", "--namespace=kyverno", inert, "--wait") })
	left, err := dynamic.NewForConfigOrDie(s.config()).Resource(crds).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) > 0 {
		t.Errorf("%d CRDs are left", len(left.Items))
	}
}

// policy makes an object of one of Kyverno's kinds, and of one that its chart has from
// its API's.
func policy(t *testing.T, s *space) {
	t.Helper()
	s.apply(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: labels}
spec:
  rules:
  - name: labels
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: a label is missing, pattern: {metadata: {labels: {app: "?*"}}}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: labels}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: has(object.metadata.labels), message: a label is missing}]
`)
}

// same compares what Helm says it installed with what the space has.
func (s *space) same(t *testing.T, manifest string) {
	t.Helper()
	missing := env.KubectlIn(t, s.kubeconfig, manifest, "get", "-o", "name", "-f", "-")
	want, got := strings.Count(manifest, "\nkind: "), strings.Count(missing, "\n")
	if want != got || got == 0 {
		t.Errorf("the manifest has %d objects, the space %d of them", want, got)
	}
}

// history is the revisions of a release with their states.
func (s *space) history(t *testing.T, release string) string {
	t.Helper()
	var revisions []struct {
		Revision int
		Status   string
	}
	if err := json.Unmarshal([]byte(s.helm(t, "history", release, "--namespace="+release, "--output=json")), &revisions); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range revisions {
		all = append(all, fmt.Sprintf("%d %s", r.Revision, r.Status))
	}
	return strings.Join(all, ", ")
}

func (s *space) helm(t *testing.T, args ...string) string {
	t.Helper()
	return env.Command{Binary: "helm", Kubeconfig: s.kubeconfig, Args: args}.Run(t)
}

func (s *space) helmFails(t *testing.T, args ...string) string {
	t.Helper()
	return env.Command{Binary: "helm", Kubeconfig: s.kubeconfig, Args: args}.Fails(t)
}

// timed logs how long something took, and what the hub had to do for it.
func (s *space) timed(t *testing.T, what string, f func()) {
	t.Helper()
	start, before := time.Now(), s.hub.Usage()
	f()
	after := s.hub.Usage()
	t.Logf("%s: %s; the hub %s of CPU, %d MiB of its own", what, time.Since(start).Round(10*time.Millisecond),
		(after.CPU - before.CPU).Round(10*time.Millisecond), after.RSSAnon>>20)
}
