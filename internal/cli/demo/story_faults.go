package demo

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *story) tellTampering(ctx context.Context) error {
	north := s.world.locations[0]
	s.say("The agent reverts changes and deletions that others make at a location. It does not\nneed the hub for this.\n")
	config := newObject("v1", "ConfigMap", namespace, "web")
	before, err := north.get(ctx, config)
	if err != nil {
		return err
	}
	s.command(`kubectl --context %s patch deployment web --type merge -p '{"spec":{"replicas":0}}'`, north.name)
	if err := north.merge(ctx, deployments, namespace, "web", map[string]any{"spec": map[string]any{"replicas": 0}}); err != nil {
		return err
	}
	s.command("kubectl --context %s delete configmap web", north.name)
	if err := north.delete(ctx, config); err != nil {
		return err
	}
	err = s.awaitInvariants(ctx, func(ctx context.Context) error {
		after, err := north.get(ctx, config)
		if err != nil {
			return err
		}
		if after.GetUID() == before.GetUID() {
			return errors.New("the ConfigMap has not been deleted yet")
		}
		return s.checker.running(ctx, 5, north)
	})
	if err != nil {
		return err
	}
	return s.show(ctx, north.api, namespace, "deployments", "configmaps")
}

func (s *story) tellAway(ctx context.Context) error {
	north := s.world.locations[0]
	s.say("The agent of %s stops. The cluster keeps running its workloads; the hub reports that\nthe location is not connected.\n", north.name)
	if err := s.world.stopAgent(north); err != nil {
		return err
	}
	if err := eventually(ctx, func(ctx context.Context) error { return s.checker.connected(ctx, "False", north) }); err != nil {
		return err
	}
	if err := s.show(ctx, s.world.root, "", "locations"); err != nil {
		return err
	}
	s.say("Meanwhile the space is edited: a bigger discount, and no Ingress any more.\n")
	s.command(`kubectl --context %s patch campaign spring --type merge -p '{"spec":{"discount":30}}'`, shopSpace)
	if err := s.world.shop.merge(ctx, campaigns, namespace, "spring", map[string]any{"spec": map[string]any{"discount": 30}}); err != nil {
		return err
	}
	s.command("kubectl --context %s delete ingress web", shopSpace)
	if err := s.world.shop.dynamic.Resource(ingresses).Namespace(namespace).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete the Ingress: %w", err)
	}
	if err := s.checker.unchanged(ctx, north); err != nil {
		return err
	}
	s.printf("\n")
	if err := s.show(ctx, north.api, namespace, "ingresses", "campaigns"); err != nil {
		return err
	}
	if err := s.awaitInvariants(ctx, nil, north); err != nil {
		return err
	}
	s.say("The agent is back. Agent and hub exchange only the differences.\n")
	if err := s.world.startAgent(ctx, north); err != nil {
		return err
	}
	if err := s.awaitInvariants(ctx, nil); err != nil {
		return err
	}
	return s.show(ctx, north.api, namespace, "ingresses", "campaigns")
}

func (s *story) tellDeletion(ctx context.Context) error {
	s.say("What is deleted in the space is deleted wherever it was placed.\n")
	s.command("kubectl --context %s delete namespace %s", shopSpace, namespace)
	if err := s.world.shop.delete(ctx, newObject("v1", "Namespace", "", namespace)); err != nil {
		return err
	}
	s.command("kubectl --context %s delete crd %s", shopSpace, crdName)
	if err := s.world.shop.delete(ctx, newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crdName)); err != nil {
		return err
	}
	if err := s.awaitInvariants(ctx, s.checker.allGone); err != nil {
		return err
	}
	return s.show(ctx, s.world.locations[0].api, namespace, builtIn...)
}

// tellAgain restores the application at all locations.
func (s *story) tellAgain(ctx context.Context) error {
	for _, l := range s.world.locations[1:] {
		if err := s.setStage(ctx, l, production); err != nil {
			return err
		}
	}
	s.command("kubectl --context %s apply --server-side -f storefront.yaml", shopSpace)
	if err := s.applyApp(ctx); err != nil {
		return err
	}
	if err := s.awaitInvariants(ctx, func(ctx context.Context) error { return s.checker.running(ctx, 3, s.world.locations...) }); err != nil {
		return err
	}
	if err := eventually(ctx, s.checker.counted); err != nil {
		return err
	}
	return s.show(ctx, s.world.shop, "", "placements")
}
