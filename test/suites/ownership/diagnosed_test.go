package ownership

import (
	"errors"
	"fmt"
	"strings"

	"orrery.dev/orrery/test/support/env"
)

// unwell has the parts of a Deployment with one Pod: its name, a label that a node must have, and more of the Pod's spec.
const unwell = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: %s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template: {metadata: {labels: {app: %[1]s}}, spec: {nodeSelector: {%[3]s}, containers: [{name: c, image: "nosuch:1"}]%[4]s}}
---
`

const unwellMore = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set, namespace: full}
spec: {serviceName: set, selector: {matchLabels: {app: set}}, template: {metadata: {labels: {app: set}}, spec: {containers: [{name: c, image: x}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: diagnosed}
spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: diagnosed}
spec: {template: {spec: {restartPolicy: Never, nodeSelector: {no: node}, containers: [{name: c, image: x}]}}}
`

const quotaOfPods = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: full}
spec: {hard: {pods: "0"}}
`

// diagnosed: an object that is not healthy shows why, by the objects that it owns, in the answers of the hub and
// in its status in the space. The reason is gone when the object is healthy. Real controllers and a real scheduler
// write all but the statuses of containers, which the test writes as a kubelet does.
func (s *suite) diagnosed() {
	s.namespace("diagnosed")
	s.namespace("full")
	env.KubectlIn(s, s.site.Cluster.Kubeconfig, quotaOfPods, "apply", "-f", "-")
	s.write(fmt.Sprintf(unwell, "waits", "diagnosed", "diagnosed: here", "") +
		fmt.Sprintf(unwell, "pulls", "diagnosed", "no: node", "") +
		fmt.Sprintf(unwell, "crashes", "diagnosed", "no: node", "") +
		fmt.Sprintf(unwell, "mounts", "diagnosed", "", ", volumes: [{name: d, persistentVolumeClaim: {claimName: disk}}]") +
		fmt.Sprintf(unwell, "many", "full", "", "") + unwellMore)
	s.place("diagnosed", "", "")
	s.place("full", "", "")
	const deployments = "apps/deployments/diagnosed/"
	s.setContainer("pulls", `{"name":"c","image":"nosuch:1","imageID":"","ready":false,"restartCount":0,
		"state":{"waiting":{"reason":"ErrImagePull","message":"nosuch:1: not found"}}}`)
	s.setContainer("crashes", `{"name":"c","image":"nosuch:1","imageID":"","ready":false,"restartCount":4,
		"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},"lastState":{"terminated":{"exitCode":3,"reason":"Error"}}}`)

	s.does(deployments+"waits", "Progressing", "Unschedulable: 0/2 nodes are available")
	s.does(deployments+"pulls", "Progressing", `ImagePullBackOff: container c, image "nosuch:1": nosuch:1: not found`)
	s.does(deployments+"crashes", "Progressing", "CrashLoopBackOff: container c, exit code 3, restarts: 4")
	s.does(deployments+"mounts", "Progressing", "PersistentVolumeClaim disk: ProvisioningFailed: storageclass.storage.k8s.io \"none\" not found")
	s.does("core/persistentvolumeclaims/diagnosed/disk", "Progressing", "ProvisioningFailed")
	s.does("batch/jobs/diagnosed/once", "Progressing", "Unschedulable") // Healthy by the rules of kstatus
	s.does("apps/deployments/full/many", "Progressing", `FailedCreate: pods "many-`)
	s.does("apps/deployments/full/many", "Progressing", "exceeded quota: few")
	s.does("apps/statefulsets/full/set", "Progressing", "exceeded quota: few")

	s.reconciling("waits", "edge: ", "Unschedulable: 0/2 nodes are available")
	for _, command := range [][]string{{"status"}, {"why", "deployments/waits", "-n", "diagnosed", "--location", edge}} {
		if out := env.Orrery(s, s.kubeconfig, command...); !strings.Contains(out, "Unschedulable: 0/2 nodes are available") {
			s.Errorf("orrery %s does not show the reason:\n%s", command[0], out)
		}
	}

	// The reason is gone with its cause.
	s.there("label", "node", "node-1", "diagnosed=here")
	s.there("-n", "full", "delete", "quota", "few")
	s.recovers(deployments + "waits")
	s.recovers("apps/deployments/full/many")
	s.eventually("the space shows no reason", func() error {
		out := env.Kubectl(s, s.kubeconfig, "-n", "diagnosed", "get", "deployment", "waits", "-o", "jsonpath={.status.conditions}")
		if strings.Contains(out, "Reconciling") || strings.Contains(out, "Unschedulable") {
			return errors.New(out)
		}
		return nil
	})
	s.there("label", "node", "node-1", "diagnosed-")
	s.unplace("diagnosed")
	s.unplace("full")
	s.gone("diagnosed", "deploy/waits")
	s.gone("full", "deploy/many")
}

// setContainer writes the status of the container of a Deployment's Pod, as a kubelet does.
func (s *suite) setContainer(deployment, status string) {
	s.Helper()
	s.eventually("the Pod of "+deployment+" has a container", func() error {
		name, err := env.TryKubectl(s, s.site.Cluster.Kubeconfig, "-n", "diagnosed", "get", "pods", "-l", "app="+deployment, "-o", "jsonpath={.items[0].metadata.name}")
		if err != nil {
			return err
		}
		_, err = env.TryKubectl(s, s.site.Cluster.Kubeconfig, "-n", "diagnosed", "patch", "pod", strings.TrimSpace(name), "--subresource=status", "--type=merge",
			"-p", `{"status":{"containerStatuses":[`+status+`]}}`)
		return err
	})
}

// reconciling waits until the condition Reconciling of a Deployment in the space has some words.
func (s *suite) reconciling(deployment string, words ...string) {
	s.Helper()
	s.eventually("the space shows why "+deployment+" is not healthy", func() error {
		out := env.Kubectl(s, s.kubeconfig, "-n", "diagnosed", "get", "deployment", deployment, "-o", `jsonpath={.status.conditions[?(@.type=="Reconciling")].message}`)
		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Errorf("the message is %q", out)
			}
		}
		return nil
	})
}

// recovers waits until an object is healthy without a reason why not.
func (s *suite) recovers(object string) {
	s.Helper()
	s.eventually(object+" is healthy", func() error {
		got, err := s.report(object)
		if err == nil && (got.Health != "Healthy" || got.HealthNote != "") {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
}
