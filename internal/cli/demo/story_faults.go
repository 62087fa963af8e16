package demo

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (w *world) tellTampering(ctx context.Context) error {
	north := w.locations[0]
	w.say("The agent reverts changes and deletions that others make at a location. It does not\nneed the hub for this.\n")
	config := newObject("v1", "ConfigMap", namespace, "web")
	before, err := north.get(ctx, config)
	if err != nil {
		return err
	}
	w.command(`kubectl --context %s patch deployment web --type merge -p '{"spec":{"replicas":0}}'`, north.name)
	if err := north.merge(ctx, deployments, namespace, "web", map[string]any{"spec": map[string]any{"replicas": 0}}); err != nil {
		return err
	}
	w.command("kubectl --context %s delete configmap web", north.name)
	if err := north.delete(ctx, config); err != nil {
		return err
	}
	err = w.awaitInvariants(ctx, func(ctx context.Context) error {
		after, err := north.get(ctx, config)
		if err != nil {
			return err
		}
		if after.GetUID() == before.GetUID() {
			return errors.New("the ConfigMap has not been deleted yet")
		}
		return w.running(ctx, 5, north)
	})
	if err != nil {
		return err
	}
	return w.show(ctx, north.api, namespace, "deployments", "configmaps")
}

func (w *world) tellAway(ctx context.Context) error {
	north := w.locations[0]
	w.say("The agent of %s stops. The cluster keeps running its workloads; the hub reports that\nthe location is not connected.\n", north.name)
	if err := w.stopAgent(north); err != nil {
		return err
	}
	if err := eventually(ctx, func(ctx context.Context) error { return w.connected(ctx, "False", north) }); err != nil {
		return err
	}
	if err := w.show(ctx, w.root, "", "locations"); err != nil {
		return err
	}
	w.say("Meanwhile the space is edited: a bigger discount, and no Ingress any more.\n")
	w.command(`kubectl --context %s patch campaign spring --type merge -p '{"spec":{"discount":30}}'`, shopSpace)
	if err := w.shop.merge(ctx, campaigns, namespace, "spring", map[string]any{"spec": map[string]any{"discount": 30}}); err != nil {
		return err
	}
	w.command("kubectl --context %s delete ingress web", shopSpace)
	if err := w.shop.dynamic.Resource(ingresses).Namespace(namespace).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete the Ingress: %w", err)
	}
	if err := w.unchanged(ctx, north); err != nil {
		return err
	}
	w.printf("\n")
	if err := w.show(ctx, north.api, namespace, "ingresses", "campaigns"); err != nil {
		return err
	}
	if err := w.awaitInvariants(ctx, nil, north); err != nil {
		return err
	}
	w.say("The agent is back. Agent and hub exchange only the differences.\n")
	if err := w.startAgent(ctx, north); err != nil {
		return err
	}
	if err := w.awaitInvariants(ctx, nil); err != nil {
		return err
	}
	return w.show(ctx, north.api, namespace, "ingresses", "campaigns")
}

// unchanged returns an error unless a location still has its objects from before the edits of
// tellAway.
func (w *world) unchanged(ctx context.Context, l *location) error {
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

func (w *world) tellDeletion(ctx context.Context) error {
	w.say("What is deleted in the space is deleted wherever it was placed.\n")
	w.command("kubectl --context %s delete namespace %s", shopSpace, namespace)
	if err := w.shop.delete(ctx, newObject("v1", "Namespace", "", namespace)); err != nil {
		return err
	}
	w.command("kubectl --context %s delete crd %s", shopSpace, crdName)
	if err := w.shop.delete(ctx, newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crdName)); err != nil {
		return err
	}
	if err := w.awaitInvariants(ctx, w.allGone); err != nil {
		return err
	}
	return w.show(ctx, w.locations[0].api, namespace, builtIn...)
}

// allGone returns an error if an object of the application still exists in the space.
func (w *world) allGone(ctx context.Context) error {
	w.shop.kinds.Reset()
	for _, object := range []*unstructured.Unstructured{
		newObject("v1", "Namespace", "", namespace),
		newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crdName),
	} {
		if _, err := w.shop.get(ctx, object); err == nil {
			return fmt.Errorf("%s is still in the space", identityOf(object))
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// tellAgain restores the application at all locations.
func (w *world) tellAgain(ctx context.Context) error {
	for _, l := range w.locations[1:] {
		if err := w.setStage(ctx, l, production); err != nil {
			return err
		}
	}
	w.command("kubectl --context %s apply --server-side -f storefront.yaml", shopSpace)
	if err := w.applyApp(ctx); err != nil {
		return err
	}
	if err := w.awaitInvariants(ctx, func(ctx context.Context) error { return w.running(ctx, 3, w.locations...) }); err != nil {
		return err
	}
	if err := eventually(ctx, w.counted); err != nil {
		return err
	}
	return w.show(ctx, w.shop, "", "placements")
}

// clean removes the objects of the demo from real clusters.
func (w *world) clean(ctx context.Context) error {
	if w.shop == nil {
		return nil
	}
	err := w.shop.delete(ctx, objectOf("Placement", placementName))
	if apierrors.IsNotFound(err) {
		return nil // the demo did not get that far
	}
	if err != nil {
		return fmt.Errorf("empty the clusters: %w", err)
	}
	for _, l := range w.locations {
		if l.agent == nil && l.join.Token != "" {
			if err := w.startAgent(ctx, l); err != nil {
				return err
			}
		}
	}
	if err := eventually(ctx, func(ctx context.Context) error { _, err := w.verify(ctx); return err }); err != nil {
		return fmt.Errorf("empty the clusters: %w", err)
	}
	return nil
}
