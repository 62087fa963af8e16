package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// obstacles are admission rules of the target cluster: a policy rejects ConfigMaps of one name, and
// a webhook without a server blocks all Secrets.
const obstacles = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "object.metadata.name != 'refused'", message: not here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse}
spec: {policyName: refuse, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: nobody}
webhooks:
- name: nobody.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets]}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`

// TestRefused places an object that the target refuses, one that is too large for
// it, and a whole kind that fails: each is reported as it is, all others go on,
// and so do these once nothing is in their way.
func TestRefused(t *testing.T) {
	t.Parallel()
	const secrets, most = 30, 200 << 10
	e := edgeOf(t, world.New(t, "--heartbeat", heartbeat.String()), nil, env.EtcdArgs(fmt.Sprint("--max-request-bytes=", most)))
	large := strings.Repeat("x", most)
	env.KubectlIn(t, e.Cluster.Kubeconfig, obstacles, "create", "-f", "-")
	env.Eventually(t, soon, func() error {
		_, err := e.target().Create(t.Context(), configMap("refused", "1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("the target does not refuse it yet: %w", err)
		}
		return nil
	})
	e.put("refused", "1")
	e.put("large", large)
	for n := range secrets {
		e.putObject(secret(fmt.Sprint("s-", n)))
	}
	for n := range 10 {
		e.put(fmt.Sprint("other-", n), "1")
	}
	for n := range 10 {
		e.waitFor(fmt.Sprint("other-", n), "1")
	}
	e.waitForStatus(func(s agent.Status) bool { return s.States[wire.Failed] == secrets+2 && s.States[wire.Applied] == 10 })
	for name, why := range map[string]string{
		"configmaps/refused": "not here", "configmaps/large": "too large", "secrets/s-7": "nobody.example.org",
	} {
		e.fails(name, why)
	}
	// What fails is tried again and again, which is in nobody's way.
	for n := range 10 {
		e.put(fmt.Sprint("other-", n), "2")
	}
	e.tamper("other-0")
	for n := range 10 {
		e.waitFor(fmt.Sprint("other-", n), "2")
	}
	if s, err := agent.ReadStatus(e.Agent.Dir); err != nil || s.Halt != "" {
		t.Errorf("the agent halts: %q, %v", s.Halt, err)
	}

	env.KubectlIn(t, e.Cluster.Kubeconfig, obstacles, "delete", "-f", "-")
	start := time.Now()
	e.put("large", "1")
	e.waitFor("refused", "1")
	e.waitFor("large", "1")
	e.waitForStatus(func(s agent.Status) bool { return s.States[wire.Applied] == s.Desired && s.Queued == 0 })
	t.Logf("all is applied %s after nothing was in the way", time.Since(start).Round(time.Second))
	e.Invariants()
}

func secret(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"for": "edge"}},
	}}
}

// putObject makes an object in the space.
func (e *edge) putObject(u *unstructured.Unstructured) {
	e.t.Helper()
	resource := schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(u.GetKind()) + "s"}
	if _, err := e.space.Resource(resource).Namespace(namespace).Create(e.t.Context(), u, metav1.CreateOptions{}); err != nil {
		e.t.Fatalf("create %q: %v", u.GetName(), err)
	}
}

// fails waits until an object, RESOURCE/NAME, is said to have failed, and why.
func (e *edge) fails(name, why string) {
	e.t.Helper()
	resource, object, _ := strings.Cut(name, "/")
	env.Eventually(e.t, soon, func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: e.Root, Args: []string{"status", "--space", spaceName, resource + "/" + object, "-o", "json"}}.Try(e.t)
		if err != nil {
			return err
		}
		if !strings.Contains(out, `"state": "Failed"`) || !strings.Contains(out, why) {
			return errors.New(out)
		}
		return nil
	})
}
