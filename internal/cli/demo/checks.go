package demo

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
)

// connected returns an error unless the condition Connected of all given locations has a status.
func (c *checker) connected(ctx context.Context, want string, all ...*location) error {
	for _, l := range all {
		object, err := c.world.root.get(ctx, objectOf("Location", l.name))
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		is := ""
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == v1alpha1.ConditionConnected {
				is, _ = c["status"].(string)
			}
		}
		if is != want {
			return fmt.Errorf("condition Connected of location %s is %q, not %q", l.name, is, want)
		}
	}
	return nil
}

// running returns an error unless the Deployment at each given location has the given number of
// ready replicas. At a real cluster it is enough that the number is in the spec, since Pods may not
// start there.
func (c *checker) running(ctx context.Context, replicas int64, all ...*location) error {
	for _, l := range all {
		object, err := l.get(ctx, newObject("apps/v1", "Deployment", namespace, "web"))
		if err != nil {
			return err
		}
		path := []string{"spec", "replicas"}
		if l.simulated {
			path = []string{"status", "readyReplicas"}
		}
		if n, _, _ := unstructured.NestedInt64(object.Object, path...); n != replicas {
			return fmt.Errorf("the Deployment at %s has %d replicas, not %d", l.name, n, replicas)
		}
	}
	return nil
}

// counted returns an error if the Placement's status has other counts than the last check.
func (c *checker) counted(ctx context.Context) error {
	object, err := c.world.shop.get(ctx, objectOf("Placement", placementName))
	if err != nil {
		return err
	}
	assigned, _, _ := unstructured.NestedInt64(object.Object, "status", "assigned")
	applied, _, _ := unstructured.NestedInt64(object.Object, "status", "applied")
	if want := int64(c.found.copies); assigned != want || applied != want {
		return fmt.Errorf("the Placement counts %d of %d as applied, not %d", applied, assigned, want)
	}
	return nil
}

// unchanged returns an error unless a location still has its objects from before the edits of
// tellAway.
func (c *checker) unchanged(ctx context.Context, l *location) error {
	if _, err := l.get(ctx, newObject("networking.k8s.io/v1", "Ingress", namespace, "web")); err != nil {
		return fmt.Errorf("without its agent, %s lost the Ingress: %w", l.name, err)
	}
	campaign, err := l.get(ctx, newObject("shop.example/v1", "Campaign", namespace, "spring"))
	if err != nil {
		return fmt.Errorf("without its agent, %s lost the Campaign: %w", l.name, err)
	}
	if n, _, _ := unstructured.NestedInt64(campaign.Object, "spec", "discount"); n != 20 {
		return fmt.Errorf("without its agent, %s has a discount of %d", l.name, n)
	}
	return nil
}

// allGone returns an error if an object of the application still exists in the space.
func (c *checker) allGone(ctx context.Context) error {
	c.world.shop.kinds.Reset()
	for _, object := range []*unstructured.Unstructured{
		newObject("v1", "Namespace", "", namespace),
		newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crdName),
	} {
		if _, err := c.world.shop.get(ctx, object); err == nil {
			return fmt.Errorf("%s is still in the space", identityOf(object))
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
