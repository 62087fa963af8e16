// Package providerviews is package provider with the help of package views: it knows which
// cluster of which space one is, and writes into each space by itself, with the names there.
package providerviews

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"orrery.dev/orrery/examples/clusters"
	"orrery.dev/orrery/views"
)

// New makes a manager of a provider of a name. The configuration is that of its slice, across
// all spaces; the options are for the manager.
func New(slice *rest.Config, name string, options ctrl.Options) (ctrl.Manager, error) {
	options.Scheme = clusters.Scheme()
	m, err := ctrl.NewManager(slice, options)
	if err != nil {
		return nil, err
	}
	return m, ctrl.NewControllerManagedBy(m).For(&clusters.KubernetesCluster{}).Owns(&corev1.Secret{}).Complete(&reconciler{m, name})
}

type reconciler struct {
	manager ctrl.Manager
	name    string
}

// in is a client of the slice in one space, where all have the names that they have there.
func (r *reconciler) in(space string) (client.Client, error) {
	config, err := views.In(r.manager.GetConfig(), space)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: r.manager.GetScheme(), Mapper: r.manager.GetRESTMapper(), HTTPClient: r.manager.GetHTTPClient()})
}

// Reconcile makes a cluster, by the names that it has in its space.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster clusters.KubernetesCluster
	if err := r.manager.GetClient().Get(ctx, request.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	at, ok := views.Of(&cluster)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("%s is not of a view of all spaces", request)
	}
	c, err := r.in(at.Space)
	if err != nil {
		return ctrl.Result{}, err
	}
	cluster.Namespace, cluster.Name = at.Namespace, at.Name // from here on it is as in the space
	endpoint := clusters.Endpoint(at.Space, at.Namespace, at.Name)
	return clusters.Maker{Client: c, Provider: r.name, Endpoint: endpoint}.Make(ctx, &cluster)
}
