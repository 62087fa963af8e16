package ownership

import (
	"encoding/json"
	"fmt"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
)

const gauges = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.health.example}
spec:
  group: health.example
  names: {kind: Gauge, listKind: GaugeList, plural: gauges, singular: gauge}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const sick = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: health}
spec:
  replicas: 2
  progressDeadlineSeconds: %d
  selector: {matchLabels: {app: %[1]s}}
  template: {metadata: {labels: {app: %[1]s}}, spec: {nodeSelector: {%[3]s}, containers: [{name: c, image: x}]}}
---
`

const well = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: health}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: each, namespace: health}
spec: {selector: {matchLabels: {app: each}}, template: {metadata: {labels: {app: each}}, spec: {containers: [{name: c, image: x}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: health}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: health}
spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: health.example/v1
kind: Gauge
metadata: {name: g, namespace: health}
`

// health: how objects do at the location comes back without their status being asked for,
// and is counted: live Pods, a rollout that never ends, and a custom resource whose
// definition has no subresource for its status.
func (s *suite) health() {
	s.namespace("health")
	s.write(gauges)
	env.KubectlIn(s, s.site.Cluster.Kubeconfig, gauges, "apply", "-f", "-")
	s.write(fmt.Sprintf(sick, "fine", 600, "") + fmt.Sprintf(sick, "waits", 600, "no: node") + fmt.Sprintf(sick, "stuck", 1, "no: node") + well)
	s.place("health", "", ", returnStatus: None")
	const deployments, custom = "apps/deployments/health/", "health.example/gauges/health/g"
	s.does(deployments+"fine", "Healthy", "")
	s.does(deployments+"waits", "Progressing", "0/2")
	s.does(deployments+"stuck", "Degraded", "deadline")
	s.does("apps/daemonsets/health/each", "Healthy", "")
	s.does("batch/jobs/health/once", "Healthy", "")
	s.does("core/persistentvolumeclaims/health/disk", "Progressing", "not Bound")
	s.does("core/configmaps/health/settings", "Healthy", "")
	s.does(custom, "Healthy", "")

	setCondition := func(condition, status string) {
		s.Helper()
		s.there("-n", "health", "patch", "gauges.health.example", "g", "--type=merge", "-p",
			fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"message":"so it is"}]}}`, condition, status))
	}
	setCondition("Ready", "False")
	s.does(custom, "Progressing", "so it is")
	setCondition("Stalled", "True")
	s.does(custom, "Degraded", "so it is")
	s.eventually("the Placement counts them", func() error {
		var placement struct{ Status v1alpha1.PlacementStatus }
		out, err := env.TryKubectl(s, s.kubeconfig, "get", "placement", "health", "-o", "json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(out), &placement); err != nil {
			return err
		}
		status := placement.Status
		if status.Applied != 8 || status.Healthy != 4 || len(status.Errors) != 2 || status.Errors[0].Reason != v1alpha1.ReasonDegraded || status.Failed != 0 {
			return fmt.Errorf("its status is %+v", status)
		}
		return nil
	})
	columns := strings.Fields(env.Kubectl(s, s.kubeconfig, "-n", "health", "get", "deployment", "fine", "--no-headers"))
	if got := strings.Join(columns[len(columns)-4:], " "); got != "1 1 1 0" {
		s.Errorf("the columns of the table are %s", got)
	}
	setCondition("Ready", "True")
	s.does(custom, "Healthy", "")
	s.allApplied()

	// After an edit, the health of the previous revision does not count.
	env.Kubectl(s, s.kubeconfig, "-n", "health", "patch", "deployment", "stuck", "--type=json", "-p", `[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]`)
	s.does(deployments+"stuck", "Healthy", "")
	s.quiet("health")
	s.unplace("health")
	s.gone("health", "deploy/fine")
	s.there("delete", "crd", "gauges.health.example")
	env.Kubectl(s, s.kubeconfig, "delete", "crd", "gauges.health.example")
}

// does waits until an object is applied at the location with a health and a message.
func (s *suite) does(object, health, message string) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s is %s", object, health), func() error {
		got, err := s.report(object)
		if err == nil && (got.Health != health || !strings.Contains(got.HealthNote, message) || got.State != "Applied") {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
}
