// Package provider creates clusters for the spaces that have bound their API. It uses
// controller-runtime alone, and knows nothing of Orrery but three annotations, for the endpoint.
package provider

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"orrery.dev/orrery/examples/clusters"
)

// New returns a manager of a provider with a name. The configuration is that of its slice, across
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

// Reconcile creates a cluster, by its name in the view of all spaces.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster clusters.KubernetesCluster
	if err := r.Get(ctx, request.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	annotations := cluster.Annotations
	endpoint := clusters.Endpoint(annotations["orrery.dev/space"], annotations["orrery.dev/source-namespace"], annotations["orrery.dev/source-name"])
	return clusters.Maker{Client: r, Provider: r.name, Endpoint: endpoint}.Make(ctx, &cluster)
}
