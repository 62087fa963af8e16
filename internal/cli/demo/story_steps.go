package demo

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (s *story) tellLocations(ctx context.Context) error {
	s.say("A location is a cluster with an agent, which has joined the hub by a token. The\nconnection is always opened by the agent.\n")
	if err := eventually(ctx, func(ctx context.Context) error { return s.checker.connected(ctx, "True", s.world.locations...) }); err != nil {
		return err
	}
	return s.show(ctx, s.world.root, "", "locations")
}

func (s *story) tellSpace(ctx context.Context) error {
	s.say("A space is a Kubernetes API that stores objects and runs nothing. Any\nKubernetes client works with it.\n")
	s.command("%s space create %s", s.world.config.Program, shopSpace)
	if err := s.world.root.apply(ctx, objectOf("Space", shopSpace)); err != nil {
		return err
	}
	if err := s.world.shop.served(ctx); err != nil {
		return err
	}
	s.command("kubectl --context %s apply --server-side -f storefront.yaml", shopSpace)
	if err := s.applyApp(ctx); err != nil {
		return err
	}
	s.printf("\n")
	if err := s.show(ctx, s.world.shop, namespace, resources...); err != nil {
		return err
	}
	s.say("Nothing runs, and no location has any of it yet.")
	return s.awaitInvariants(ctx, nil)
}

func (s *story) tellPlacement(ctx context.Context) error {
	s.say("A Placement assigns objects to locations. This one takes all of namespace %s, and the\nCRD that it needs, to every location with the label %s=%s:\n", namespace, stageLabel, production)
	s.printf("%s\n", placementYAML)
	placement, err := parse(placementYAML)
	if err != nil {
		return err
	}
	s.command("kubectl --context %s apply --server-side -f placement.yaml", shopSpace)
	if err := s.world.shop.apply(ctx, placement[0]); err != nil {
		return err
	}
	if err := s.awaitInvariants(ctx, func(ctx context.Context) error { return s.checker.running(ctx, 3, s.world.locations[:2]...) }); err != nil {
		return err
	}
	if err := s.show(ctx, s.world.locations[0].api, namespace, resources...); err != nil {
		return err
	}
	for _, l := range s.world.locations[1:] {
		if err := s.show(ctx, l.api, namespace, "deployments"); err != nil {
			return err
		}
	}
	if err := eventually(ctx, s.checker.counted); err != nil {
		return err
	}
	return s.show(ctx, s.world.shop, "", "placements")
}

func (s *story) tellEdit(ctx context.Context) error {
	s.say("One edit in the space reaches every cluster that has the object.\n")
	s.command(`kubectl --context %s patch deployment web --type merge -p '{"spec":{"replicas":5}}'`, shopSpace)
	if err := s.world.shop.merge(ctx, deployments, namespace, "web", map[string]any{"spec": map[string]any{"replicas": 5}}); err != nil {
		return err
	}
	if err := s.awaitInvariants(ctx, func(ctx context.Context) error { return s.checker.running(ctx, 5, s.world.locations[:2]...) }); err != nil {
		return err
	}
	for _, l := range s.world.locations[:2] {
		if err := s.show(ctx, l.api, namespace, "deployments"); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) tellLabel(ctx context.Context) error {
	south := s.world.locations[1]
	s.say("South goes into maintenance: the Placement no longer selects it, and the agent\nremoves there what it had made, and nothing else. (The namespace stays: it was\nonly implied.)\n")
	if err := s.setStage(ctx, south, "maintenance"); err != nil {
		return err
	}
	if err := s.awaitInvariants(ctx, nil); err != nil {
		return err
	}
	if err := s.show(ctx, south.api, namespace, builtIn...); err != nil {
		return err
	}
	s.say("The status of an object in the space is that of all its locations together. Now\nit is that of north:\n")
	if s.world.locations[0].simulated {
		err := eventually(ctx, func(ctx context.Context) error {
			object, err := s.world.shop.get(ctx, newObject("apps/v1", "Deployment", namespace, "web"))
			if err != nil {
				return err
			}
			if n, _, _ := unstructured.NestedInt64(object.Object, "status", "readyReplicas"); n != 5 {
				return fmt.Errorf("the Deployment shows %d ready replicas in the space, not 5", n)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.show(ctx, s.world.shop, namespace, "deployments")
}
