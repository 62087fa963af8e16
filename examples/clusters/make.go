package clusters

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Maker does the work of a provider for one cluster.
type Maker struct {
	// Client accesses the API in which the cluster has its present name.
	client.Client
	// Provider is the name of the provider in the status.
	Provider string
	// Endpoint is the URL of the cluster.
	Endpoint string
}

// Make creates or updates the Secret of the cluster, and writes the status.
func (m Maker) Make(ctx context.Context, cluster *KubernetesCluster) (ctrl.Result, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}}
	if !cluster.DeletionTimestamp.IsZero() {
		if err := m.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(cluster, Finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(m.Update(ctx, cluster))
	}
	if controllerutil.AddFinalizer(cluster, Finalizer) {
		return ctrl.Result{}, m.Update(ctx, cluster) // the update triggers another reconciliation
	}
	if _, err := controllerutil.CreateOrUpdate(ctx, m, secret, func() error {
		secret.Labels = map[string]string{Label: LabelValue}
		secret.Data = map[string][]byte{"server": []byte(m.Endpoint)}
		return controllerutil.SetControllerReference(cluster, secret, m.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	status := Status{Provider: m.Provider, Endpoint: m.Endpoint, Secret: secret.Name, Nodes: cluster.Spec.Nodes}
	if status == cluster.Status {
		return ctrl.Result{}, nil
	}
	cluster.Status = status
	return ctrl.Result{}, m.Status().Update(ctx, cluster)
}

// Endpoint returns the URL of a cluster of a space.
func Endpoint(space, namespace, name string) string {
	return fmt.Sprintf("https://%s.%s.%s.example", name, namespace, space)
}
