// Package providerviews is package provider with the help of package views: it knows the space and
// the name of each cluster, and writes to each space separately, with the names in that space.
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

// New returns a manager of a provider with a name. The configuration is that of its slice, across
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

// in returns a client for the slice in one space, in which objects have the names of that space.
func (r *reconciler) in(space string) (client.Client, error) {
	config, err := views.In(r.manager.GetConfig(), space)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: r.manager.GetScheme(), Mapper: r.manager.GetRESTMapper(), HTTPClient: r.manager.GetHTTPClient()})
}

// Reconcile creates a cluster, by its name in its space.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster clusters.KubernetesCluster
	if err := r.manager.GetClient().Get(ctx, request.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	source, ok := views.ObjectOf(&cluster)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("%s is not of a view of all spaces", request)
	}
	c, err := r.in(source.Space)
	if err != nil {
		return ctrl.Result{}, err
	}
	cluster.Namespace, cluster.Name = source.Namespace, source.Name // from here on, it has its names in the space
	endpoint := clusters.Endpoint(source.Space, source.Namespace, source.Name)
	return clusters.Maker{Client: c, Provider: r.name, Endpoint: endpoint}.Make(ctx, &cluster)
}
