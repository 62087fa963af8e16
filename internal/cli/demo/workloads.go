package demo

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// resync is the interval at which every Deployment is processed again, in case an update of its
// status was refused.
const resync = 5 * time.Second

// runWorkloads simulates the controllers and nodes of a cluster: it makes Deployments ready without
// running containers, until the context ends.
func runWorkloads(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client of a simulated cluster: %w", err)
	}
	bring := func(object any) {
		d, ok := object.(*appsv1.Deployment)
		if !ok {
			return
		}
		d = d.DeepCopy()
		before := d.Status
		d.Status = readyStatus(d, time.Now())
		if equality.Semantic.DeepEqual(before, d.Status) {
			return
		}
		// On a conflict with another client, the next event or resync processes the Deployment
		// again.
		_, _ = client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{FieldManager: "stand-in"})
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.AppsV1().RESTClient(), "deployments", metav1.NamespaceAll, fields.Everything()),
		ObjectType:    &appsv1.Deployment{},
		ResyncPeriod:  resync,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    bring,
			UpdateFunc: func(_, object any) { bring(object) },
		},
	})
	informer.RunWithContext(ctx)
	return nil
}

// readyStatus returns the status of a Deployment whose replicas are all running.
func readyStatus(d *appsv1.Deployment, now time.Time) appsv1.DeploymentStatus {
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue,
		Reason: "Simulated", Message: "nothing runs: the cluster is simulated",
		LastUpdateTime: metav1.NewTime(now.Truncate(time.Second)), LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	for _, c := range d.Status.Conditions {
		if c.Type == available.Type && c.Status == available.Status {
			available.LastUpdateTime, available.LastTransitionTime = c.LastUpdateTime, c.LastTransitionTime
		}
	}
	return appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{available},
	}
}
