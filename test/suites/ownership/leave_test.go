package ownership

import (
	"context"
	"fmt"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// controllerYAML is a controller with what it needs, as a chart would have it.
const controllerYAML = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: keeper, namespace: ends}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: keeper, namespace: ends}
data: {webhook: ends-made-by-keeper}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: keeper, namespace: ends}
spec:
  selector: {matchLabels: {app: keeper}}
  template:
    metadata: {labels: {app: keeper}}
    spec: {schedulerName: nobody, serviceAccountName: keeper, containers: [{name: c, image: x}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ends-keeper}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {ends: keeper}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ends-keeper-webhooks, labels: {ends: keeper}}
rules: [{apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [create, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ends-keeper-read, labels: {ends: keeper}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ends-keeper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ends-keeper}
subjects: [{kind: ServiceAccount, name: keeper, namespace: ends}]
---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: ends}
spec:
  locations: [{names: [edge]}]
  downsync: [{namespaces: [ends]}, {apiGroup: rbac.authorization.k8s.io, names: [ends-keeper, ends-keeper-webhooks, ends-keeper-read]},
    {resources: [namespaces], names: [ends]}]
`

// leave: a controller that creates a webhook configuration, and deletes it when it ends,
// keeps all that it needs for that until it has ended, whether its Placement is deleted
// or its namespace. The Pod is on no node, so the test ends it; what a controller in it
// would do, the test does with the Pod's ServiceAccount.
func (s *suite) leave() {
	for _, how := range []struct {
		name string
		end  func()
	}{
		{"its Placement", func() { s.unplace("ends") }},
		{"its namespace", func() { env.Kubectl(s, s.kubeconfig, "delete", "namespace", "ends", "--wait=false"); s.leaveRoles() }},
	} {
		if out, err := env.TryKubectl(s, s.kubeconfig, "get", "namespace", "ends"); err != nil {
			s.Logf("%s: %s", out, err)
			env.Kubectl(s, s.kubeconfig, "create", "namespace", "ends")
		}
		s.write(controllerYAML)
		k := s.keeper()
		ended, seen := make(chan error, 1), make(chan struct{})
		go func() { ended <- k.run(s.Context(), seen) }()
		how.end()
		s.reports("apps/deployments/ends/keeper", "Removing", "Terminating")
		s.reports("core/serviceaccounts/ends/keeper", "Removing", "WaitsForWorkloads")
		close(seen)
		if err := <-ended; err != nil {
			s.Errorf("%s goes: the controller could not end in good order: %v", how.name, err)
		}
		for _, object := range []string{"deploy/keeper", "sa/keeper", "cm/keeper", "clusterrolebinding/ends-keeper",
			"clusterrole/ends-keeper-read", "clusterrole/ends-keeper-webhooks", "clusterrole/ends-keeper"} {
			s.gone("ends", object)
		}
		env.Throughout(s, 2*time.Second, func() error { // Kubernetes' controller has not made it again
			if _, err := env.TryKubectl(s, s.site.Cluster.Kubeconfig, "get", "clusterrole", "ends-keeper"); err == nil {
				return fmt.Errorf("the aggregated ClusterRole is back")
			}
			return nil
		})
		if out := s.there("get", "validatingwebhookconfigurations", "ends-made-by-keeper", "--ignore-not-found", "-o", "name"); out != "" {
			s.Errorf("%s goes: left behind: %s", how.name, out)
		}
		s.gone("", "ns/ends")
	}
}

// leaveRoles deletes what is not in the namespace, as Helm would.
func (s *suite) leaveRoles() {
	env.Kubectl(s, s.kubeconfig, "delete", "clusterrolebinding", "ends-keeper")
	env.Kubectl(s, s.kubeconfig, "delete", "clusterrole", "-l", "ends=keeper")
	env.Kubectl(s, s.kubeconfig, "delete", "clusterrole", "ends-keeper")
}

// keeper is the controller in the Pod.
type keeper struct {
	admin, own kubernetes.Interface
	pod        string
}

// keeper waits for the Pod, adds a finalizer to it, and creates the webhook configuration
// with the Pod's rights.
func (s *suite) keeper() *keeper {
	s.Helper()
	k := &keeper{admin: s.site.Cluster.Client}
	s.eventually("the controller runs", func() error {
		pods, err := k.admin.CoreV1().Pods("ends").List(s.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("there are %d Pods", len(pods.Items))
		}
		if err == nil {
			k.pod = pods.Items[0].Name
		}
		return err
	})
	s.there("-n", "ends", "patch", "pod", k.pod, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/ending"]}}`)
	config := rest.AnonymousClientConfig(s.site.Cluster.Config)
	config.BearerToken = s.there("-n", "ends", "create", "token", "keeper")
	var err error
	if k.own, err = kubernetes.NewForConfig(config); err != nil {
		s.Fatal(err)
	}
	url, ignore, none := "https://127.0.0.1:1/", admission.Ignore, admission.SideEffectClassNone
	made := &admission.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "ends-made-by-keeper"},
		Webhooks: []admission.ValidatingWebhook{{
			Name: "ends.example.com", ClientConfig: admission.WebhookClientConfig{URL: &url},
			FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	s.eventually("it has made its webhook configuration", func() error {
		_, err := k.own.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(s.Context(), made, metav1.CreateOptions{})
		return err
	})
	return k
}

// run waits until the Pod is terminating and the test has observed that. Then it deletes its webhook
// configuration with its own rights, and lets the Pod end.
func (k *keeper) run(ctx context.Context, seen <-chan struct{}) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for terminating := false; !terminating; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		pod, err := k.admin.CoreV1().Pods("ends").Get(ctx, k.pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("read the Pod: %w", err)
		}
		terminating = err == nil && pod.DeletionTimestamp != nil // requests to a busy API server are repeated
	}
	select {
	case <-seen:
	case <-ctx.Done():
		return ctx.Err()
	}
	wrong := k.end(ctx)
	if _, err := k.admin.CoreV1().Pods("ends").Patch(ctx, k.pod, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("let the Pod end: %w", err)
	}
	return wrong
}

// end is what the controller does last.
func (k *keeper) end(ctx context.Context) error {
	config, err := k.own.CoreV1().ConfigMaps("ends").Get(ctx, "keeper", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read its configuration: %w", err)
	}
	if err := k.own.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, config.Data["webhook"], metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete its webhook configuration: %w", err)
	}
	return nil
}
