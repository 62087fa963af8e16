package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// broken has no kubelet get ready what has an image of that name: no image is pulled at
// simulated nodes, so no scheduler gives such a Pod a node.
const broken = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: broken}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions: [{name: broken, expression: "object.spec.containers.exists(c, c.image.endsWith('broken'))"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{schedulerName: "none"}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: broken}
spec: {policyName: broken}
`

// live is what runs at three locations, with twice as many replicas in the south.
const live = `
apiVersion: orrery.dev/v1alpha1
kind: Customizer
metadata: {name: live}
spec:
  match: [{apiGroup: apps, resources: [deployments], names: [live]}]
  locations: [{names: [south]}]
  rules: [{path: $.spec.replicas, expression: self * 2}]
---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: live}
spec:
  locations: [{names: [east, north, south]}]
  downsync:
  - namespaces: [live]
    associated: [{apiGroup: apps, resources: [replicasets]}, {resources: [pods]}, {apiGroup: discovery.k8s.io, resources: [endpointslices]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: live, namespace: live}
spec:
  replicas: 2
  strategy: {type: Recreate}
  selector: {matchLabels: {app: live}}
  template: {metadata: {labels: {app: live}}, spec: {containers: [{name: c, image: registry.example/live}]}}
---
apiVersion: v1
kind: Service
metadata: {name: live, namespace: live}
spec: {selector: {app: live}, ports: [{port: 80}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: done, namespace: live}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/live}]}}}
`

const failingJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: doomed, namespace: live}
spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/broken}]}}}
`

// together shows what a user sees in the space of what runs at three locations, one of which
// is to have more: it is there, ready and healthy when it is so at all of them.
func (w *shop) together() {
	w.t.Helper()
	w.Join("east", nil)
	for _, site := range w.Sites {
		env.KubectlIn(w.t, site.Cluster.Kubeconfig, broken, "apply", "-f", "-")
	}
	w.kubectl("create", "namespace", "live")
	w.apply(live)
	w.runs(2)
	w.live("wait", "--for=condition=complete", "job/done", "--timeout="+world.Soon.String())
	w.kubectl("-n", "live", "scale", "deployment/live", "--replicas=3")
	w.runs(3)
	reports := filepath.Join(w.t.TempDir(), "reports.kubeconfig")
	if err := os.WriteFile(reports, []byte(env.Orrery(w.t, w.Root, "space", "kubeconfig", spaceName, "--reports")), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.seen(reports, "replicasets", "orrery.dev/health=Healthy", 3)
	w.seen(reports, "endpointslices", "orrery.dev/health=Healthy,kubernetes.io/service-name=live", 3)
	w.seen(reports, "pods", "orrery.dev/health=Healthy,app=live", 12)
	w.seen(reports, "pods", "orrery.dev/health=Healthy,app=live,orrery.dev/location=south", 6)
	w.lacks()
	w.breaks(reports)
	w.fails()
	w.Invariants()
}

// live runs kubectl in the space's namespace live.
func (w *shop) live(args ...string) string {
	w.t.Helper()
	return w.kubectl(append([]string{"-n", "live"}, args...)...)
}

// notYet runs kubectl in that namespace, which must not see in a second what it waits for.
func (w *shop) notYet(args ...string) {
	w.t.Helper()
	timeout := time.Second
	w.Eventually("it is not yet so", func() error { // of a busy machine kubectl may say other things when it has no more time
		out := env.KubectlFails(w.t, w.space, append([]string{"-n", "live", "--timeout=" + timeout.String()}, args...)...)
		timeout *= 2
		if !strings.Contains(out, "timed out") {
			return fmt.Errorf("kubectl %v says %q", args, out)
		}
		return nil
	})
}

// runs waits as users do until the Deployment is rolled out, and then looks at each location.
func (w *shop) runs(replicas int64) {
	w.t.Helper()
	w.live("rollout", "status", "deployment/live", "--timeout="+world.Soon.String())
	w.live("wait", "--for=condition=Available", "deployment/live", "--timeout="+world.Soon.String())
	for name, site := range w.Sites {
		want := replicas
		if name == "south" {
			want *= 2
		}
		ready, _, _ := unstructured.NestedInt64(w.atSite(site).Object, "status", "readyReplicas")
		if ready != want {
			w.t.Errorf("rolled out with %d replicas ready at %s, want %d", ready, name, want)
		}
	}
	w.ready(fmt.Sprintf("%d/%[1]d", replicas))
}

// atSite is the Deployment as it is at a location.
func (w *shop) atSite(site *world.Site) *unstructured.Unstructured {
	w.t.Helper()
	d, err := site.Get(w.t, world.Deployments, "live", "live")
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// ready waits until kubectl shows so many replicas of the Deployment ready in the space.
func (w *shop) ready(want string) {
	w.t.Helper()
	w.Eventually("kubectl shows "+want, func() error {
		out, err := env.TryKubectl(w.t, w.space, "-n", "live", "get", "deployment", "live", "--no-headers")
		if err != nil {
			return err
		}
		if columns := strings.Fields(out); columns[1] != want {
			return fmt.Errorf("it shows %s", columns)
		}
		return nil
	})
}

// seen waits until so many objects of a resource match a selector in what locations report.
func (w *shop) seen(reports, resource, selector string, want int) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("%d %s are %s", want, resource, selector), func() error {
		out, err := env.TryKubectl(w.t, reports, "get", resource, "-A", "-l", selector, "-o", "name")
		if err == nil && strings.Count(out, "\n") != want {
			err = fmt.Errorf("they are\n%s", out)
		}
		return err
	})
}

// healthy waits for orrery status, which exits in time if all is well.
func (w *shop) healthy(timeout string) error {
	w.t.Helper()
	_, err := env.Command{Binary: "orrery", Kubeconfig: w.space, Args: []string{"status", "-n", "live", "--wait", "--for", "healthy", "--timeout", timeout}}.Try(w.t)
	return err
}

// does waits until orrery status says of the Deployment that it does so at all locations.
func (w *shop) does(health string) {
	w.t.Helper()
	w.Eventually("it is "+health+" at all locations", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: w.space, Args: []string{"status", "deployment/live", "-n", "live"}}.Try(w.t)
		if err != nil {
			return err
		}
		if strings.Count(out, health) < len(w.Sites) {
			return fmt.Errorf("orrery status says\n%s", out)
		}
		return nil
	})
}

// lacks shows that all of the replicas that a location is to have count, and that statuses
// come back without a write at any location.
func (w *shop) lacks() {
	w.t.Helper()
	start, south := time.Now(), w.Sites["south"]
	before, space := w.atSite(south), w.live("get", "deployment", "live", "-o", "jsonpath={.metadata.generation}")
	there := func(args ...string) string {
		w.t.Helper()
		return env.Kubectl(w.t, south.Cluster.Kubeconfig, append([]string{"-n", "live"}, args...)...)
	}
	there("create", "quota", "few", "--hard=pods=3")
	pods := strings.Fields(there("get", "pods", "-l", "app=live", "-o", "name"))
	if len(pods) != 6 {
		w.t.Fatalf("south has %v", pods)
	}
	there(append([]string{"delete"}, pods[:3]...)...)
	w.ready("1/3")
	w.notYet("rollout", "status", "deployment/live")
	there("delete", "quota", "few")
	there("annotate", "replicasets", "--all", "look=again") // its controller waits longer and longer
	w.runs(3)
	for name, site := range w.Sites {
		if writes := site.Cluster.AllRequests(w.t, env.Filter{User: env.AgentUser, After: start, Writes: true}); len(writes) > 0 {
			w.t.Errorf("for statuses that come back the agent writes at %s: %+v", name, writes)
		}
	}
	if now := w.live("get", "deployment", "live", "-o", "jsonpath={.metadata.generation}"); now != space {
		w.t.Errorf("statuses that come back take the generation from %s to %s", space, now)
	}
	if after := w.atSite(south); after.GetGeneration() != before.GetGeneration() || w.written(after) != w.written(before) {
		w.t.Errorf("south had\n%s\nand has\n%s", w.written(before), w.written(after))
	}
}

// written returns the managed fields of an object, apart from those of the status.
func (w *shop) written(u *unstructured.Unstructured) string {
	w.t.Helper()
	var fields []metav1.ManagedFieldsEntry
	for _, f := range u.GetManagedFields() {
		if f.Subresource == "" {
			fields = append(fields, f)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// breaks rolls an image out that never gets ready, and mends it.
func (w *shop) breaks(reports string) {
	w.t.Helper()
	for name, site := range w.Sites {
		w.Eventually("a broken image is one at "+name, func() error {
			out, err := env.TryKubectl(w.t, site.Cluster.Kubeconfig, "run", "x", "--image=broken", "--dry-run=server", "-o", "jsonpath={.spec.schedulerName}")
			if err == nil && out != "none" {
				err = fmt.Errorf("its scheduler is %s", out)
			}
			return err
		})
	}
	w.paused()
	w.live("patch", "deployment", "live", "--type=strategic", "-p",
		`{"spec":{"paused":null,"template":{"spec":{"containers":[{"name":"c","image":"registry.example/broken"}]}}}}`)
	w.ready("0/3")
	w.notYet("rollout", "status", "deployment/live")
	w.notYet("wait", "--for=condition=Available", "deployment/live")
	w.does("Progressing")
	w.seen(reports, "pods", "orrery.dev/health=Progressing,app=live", 12)
	w.Eventually("what is not healthy is said to be so", func() error {
		if err := w.healthy("1s"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
			return fmt.Errorf("orrery status says %w", err)
		}
		return nil
	})
	w.live("patch", "deployment", "live", "--type=merge", "-p", `{"spec":{"progressDeadlineSeconds":1}}`)
	w.does("Degraded")
	w.Eventually("the rollout has failed in the space", func() error {
		if _, err := env.TryKubectl(w.t, w.space, "-n", "live", "rollout", "status", "deployment/live", "--timeout=1s"); err == nil {
			return errors.New("it is rolled out")
		} else if !strings.Contains(err.Error(), "exceeded its progress deadline") {
			return err
		}
		return nil
	})
	w.live("patch", "deployment", "live", "--type=strategic", "-p",
		`{"spec":{"progressDeadlineSeconds":600,"template":{"spec":{"containers":[{"name":"c","image":"registry.example/mended"}]}}}}`)
	w.Eventually("it is rolled out", func() error { // as at a cluster, the old Pods are gone before the failure is
		_, err := env.TryKubectl(w.t, w.space, "-n", "live", "rollout", "status", "deployment/live", "--timeout=1m")
		return err
	})
	w.runs(3)
	if err := w.healthy(world.Soon.String()); err != nil {
		w.t.Error(err)
	}
	w.seen(reports, "pods", "orrery.dev/health=Healthy,app=live", 12)
}

// paused pauses the Deployment at all locations, so that its condition is not that of the last rollout
// when the next one begins. Otherwise the controller of Kubernetes, if its cache lags, can take the
// new rollout for complete, and never reports its timeout.
func (w *shop) paused() {
	w.t.Helper()
	w.live("rollout", "pause", "deployment/live")
	for name, site := range w.Sites {
		w.Eventually("the Deployment is paused at "+name, func() error {
			out, err := env.TryKubectl(w.t, site.Cluster.Kubeconfig, "-n", "live", "get", "deployment", "live", "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].reason}`)
			if err == nil && out != "DeploymentPaused" {
				err = fmt.Errorf("its condition is %s", out)
			}
			return err
		})
	}
}

// fails shows that a Job has to come to its end everywhere, and fails anywhere.
func (w *shop) fails() {
	w.t.Helper()
	w.apply(failingJob)
	ends := func(name, phase string) {
		w.t.Helper()
		config := w.Sites[name].Cluster.Kubeconfig
		var pod string
		w.Eventually("the Job has a Pod at "+name, func() (err error) {
			if pod, err = env.TryKubectl(w.t, config, "-n", "live", "get", "pods", "-l", "job-name=doomed", "-o", "name"); err == nil && pod == "" {
				err = fmt.Errorf("there is none")
			}
			return err
		})
		env.Kubectl(w.t, config, "-n", "live", "patch", strings.TrimSpace(pod), "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"`+phase+`"}}`)
	}
	ends("east", "Succeeded")
	ends("south", "Succeeded")
	w.Eventually("the Job is through at two locations", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: w.space, Args: []string{"status", "job/doomed", "-n", "live"}}.Try(w.t)
		if err != nil {
			return err
		}
		if strings.Count(out, "Healthy") < 2 {
			return fmt.Errorf("orrery status says\n%s", out)
		}
		return nil
	})
	w.notYet("wait", "--for=condition=complete", "job/doomed")
	ends("north", "Failed")
	w.live("wait", "--for=condition=failed", "job/doomed", "--timeout="+world.Soon.String())
	w.notYet("wait", "--for=condition=complete", "job/doomed")
	w.live("wait", "--for=condition=complete", "job/done", "--timeout="+world.Soon.String())
}
