// Package providerviews is package provider with the help of package views: it knows which
// cluster of which space one is, and writes into each space by itself, with the names there.
package providerviews

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

// Reconcile keeps a Secret beside each cluster, and says in its status that it is there.
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
	// From here on it is as in the space.
	cluster.Namespace, cluster.Name = at.Namespace, at.Name
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name + "-kubeconfig"}}
	if !cluster.DeletionTimestamp.IsZero() {
		if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&cluster, clusters.Finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(c.Update(ctx, &cluster))
	}
	if controllerutil.AddFinalizer(&cluster, clusters.Finalizer) {
		return ctrl.Result{}, c.Update(ctx, &cluster) // which brings it back
	}
	endpoint := fmt.Sprintf("https://%s.%s.%s.example", at.Name, at.Namespace, at.Space)
	if _, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
		secret.Labels = map[string]string{clusters.Label: clusters.LabelValue}
		secret.Data = map[string][]byte{"server": []byte(endpoint)}
		return controllerutil.SetControllerReference(&cluster, secret, c.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	status := clusters.Status{Provider: r.name, Endpoint: endpoint, Secret: secret.Name, Nodes: cluster.Spec.Nodes}
	if status == cluster.Status {
		return ctrl.Result{}, nil
	}
	cluster.Status = status
	return ctrl.Result{}, c.Status().Update(ctx, &cluster)
}
