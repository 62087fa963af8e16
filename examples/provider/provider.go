// Package provider makes clusters for the spaces that have bound their API. It is made with
// controller-runtime alone, and knows no more of Orrery than an annotation, for one text.
package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"orrery.dev/orrery/examples/clusters"
)

// New makes a manager of a provider of a name. The configuration is that of its slice, across
// all spaces; the options are for the manager.
func New(slice *rest.Config, name string, options ctrl.Options) (ctrl.Manager, error) {
	options.Scheme = clusters.Scheme()
	m, err := ctrl.NewManager(slice, options)
	if err != nil {
		return nil, err
	}
	return m, ctrl.NewControllerManagedBy(m).For(&clusters.KubernetesCluster{}).Owns(&corev1.Secret{}).Complete(&reconciler{m.GetClient(), name})
}

type reconciler struct {
	client.Client
	name string
}

// Reconcile keeps a Secret beside each cluster, and says in its status that it is there.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster clusters.KubernetesCluster
	if err := r.Get(ctx, request.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}}
	if !cluster.DeletionTimestamp.IsZero() {
		if err := r.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&cluster, clusters.Finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &cluster))
	}
	if controllerutil.AddFinalizer(&cluster, clusters.Finalizer) {
		return ctrl.Result{}, r.Update(ctx, &cluster) // which brings it back
	}
	said := cluster.Annotations
	endpoint := fmt.Sprintf("https://%s.%s.%s.example", said["orrery.dev/source-name"], said["orrery.dev/source-namespace"], said["orrery.dev/space"])
	if _, err := controllerutil.CreateOrUpdate(ctx, r, secret, func() error {
		secret.Labels = map[string]string{clusters.Label: clusters.LabelValue}
		secret.Data = map[string][]byte{"server": []byte(endpoint)}
		return controllerutil.SetControllerReference(&cluster, secret, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	status := clusters.Status{Provider: r.name, Endpoint: endpoint, Secret: secret.Name, Nodes: cluster.Spec.Nodes}
	if status == cluster.Status {
		return ctrl.Result{}, nil
	}
	cluster.Status = status
	return ctrl.Result{}, r.Status().Update(ctx, &cluster)
}
