// Package provider makes clusters for the spaces that have bound their API. It is made with
// controller-runtime alone, and knows no more of Orrery than an annotation, for one text.
package provider

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Reconcile makes a cluster, whose names are those of the view of all spaces.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster clusters.KubernetesCluster
	if err := r.Get(ctx, request.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	said := cluster.Annotations
	endpoint := clusters.Endpoint(said["orrery.dev/space"], said["orrery.dev/source-namespace"], said["orrery.dev/source-name"])
	return clusters.Maker{Client: r, Provider: r.name, Endpoint: endpoint}.Make(ctx, &cluster)
}
