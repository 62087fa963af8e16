package demo

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	ingresses   = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	campaigns   = schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "campaigns"}
	locations   = v1alpha1.GroupVersion.WithResource("locations")
)

// chapter is one step of the demo.
type chapter struct {
	title string
	tell  func(context.Context) error
}

// tell runs all steps.
func (w *world) tell(ctx context.Context) error {
	story := []chapter{
		{"Locations", w.tellLocations},
		{"A space, and an application in it", w.tellSpace},
		{"Place it by label", w.tellPlacement},
		{"Edit it", w.tellEdit},
		{"The label of a location changes", w.tellLabel},
		{"Objects change in a cluster", w.tellTampering},
		{"An agent is away", w.tellAway},
		{"Delete it", w.tellDeletion},
	}
	if !w.config.Once {
		story = append(story, chapter{"Once more, for you to play with", w.tellAgain})
	}
	began := time.Now()
	for _, c := range story {
		w.title(c.title)
		if err := c.tell(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("step %d, %q: %w", w.step, c.title, err)
		}
	}
	w.printf("\n")
	w.ok(fmt.Sprintf("all %d steps came true, in %.1fs", len(story), time.Since(began).Seconds()))
	return nil
}

// awaitInvariants waits until the invariants hold and, if also is not nil, it returns nil. Then it prints the
// result.
func (w *world) awaitInvariants(ctx context.Context, also func(context.Context) error, away ...*location) error {
	began := time.Now()
	err := eventually(ctx, func(ctx context.Context) (err error) {
		if also != nil {
			if err := also(ctx); err != nil {
				return err
			}
		}
		w.found, err = w.verify(ctx, away...)
		return err
	})
	if err == nil {
		w.ok(fmt.Sprintf("after %.1fs the invariants hold: %s", time.Since(began).Seconds(), w.found))
		w.printf("\n")
	}
	return err
}

func (w *world) tellLocations(ctx context.Context) error {
	w.say("A location is a cluster with an agent, which has joined the hub by a token. The\nconnection is always opened by the agent.\n")
	if err := eventually(ctx, func(ctx context.Context) error { return w.connected(ctx, "True", w.locations...) }); err != nil {
		return err
	}
	return w.show(ctx, w.root, "", "locations")
}

// connected returns an error unless the condition Connected of all given locations has a status.
func (w *world) connected(ctx context.Context, want string, all ...*location) error {
	for _, l := range all {
		object, err := w.root.get(ctx, objectOf("Location", l.name))
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

func (w *world) tellSpace(ctx context.Context) error {
	w.say("A space is a Kubernetes API that stores objects and runs nothing. Any\nKubernetes client works with it.\n")
	w.command("%s space create %s", w.config.Program, shopSpace)
	if err := w.root.apply(ctx, objectOf("Space", shopSpace)); err != nil {
		return err
	}
	if err := w.shop.served(ctx); err != nil {
		return err
	}
	w.command("kubectl --context %s apply --server-side -f storefront.yaml", shopSpace)
	if err := w.applyApp(ctx); err != nil {
		return err
	}
	w.printf("\n")
	if err := w.show(ctx, w.shop, namespace, resources...); err != nil {
		return err
	}
	w.say("Nothing runs, and no location has any of it yet.")
	return w.awaitInvariants(ctx, nil)
}

func (w *world) applyApp(ctx context.Context) error {
	app, err := parse(storefrontYAML)
	if err != nil {
		return err
	}
	for _, object := range app {
		if err := w.shop.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) tellPlacement(ctx context.Context) error {
	w.say("A Placement assigns objects to locations. This one takes all of namespace %s, and the\nCRD that it needs, to every location with the label %s=%s:\n", namespace, stageLabel, production)
	w.printf("%s\n", placementYAML)
	placement, err := parse(placementYAML)
	if err != nil {
		return err
	}
	w.command("kubectl --context %s apply --server-side -f placement.yaml", shopSpace)
	if err := w.shop.apply(ctx, placement[0]); err != nil {
		return err
	}
	if err := w.awaitInvariants(ctx, func(ctx context.Context) error { return w.running(ctx, 3, w.locations[:2]...) }); err != nil {
		return err
	}
	if err := w.show(ctx, w.locations[0].api, namespace, resources...); err != nil {
		return err
	}
	for _, l := range w.locations[1:] {
		if err := w.show(ctx, l.api, namespace, "deployments"); err != nil {
			return err
		}
	}
	if err := eventually(ctx, w.counted); err != nil {
		return err
	}
	return w.show(ctx, w.shop, "", "placements")
}

// running returns an error unless the Deployment at each given location has the given number of
// ready replicas. At a real cluster it is enough that the number is in the spec, since Pods may not
// start there.
func (w *world) running(ctx context.Context, replicas int64, all ...*location) error {
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
func (w *world) counted(ctx context.Context) error {
	object, err := w.shop.get(ctx, objectOf("Placement", placementName))
	if err != nil {
		return err
	}
	assigned, _, _ := unstructured.NestedInt64(object.Object, "status", "assigned")
	applied, _, _ := unstructured.NestedInt64(object.Object, "status", "applied")
	if want := int64(w.found.copies); assigned != want || applied != want {
		return fmt.Errorf("the Placement counts %d of %d as applied, not %d", applied, assigned, want)
	}
	return nil
}

func (w *world) tellEdit(ctx context.Context) error {
	w.say("One edit in the space reaches every cluster that has the object.\n")
	w.command(`kubectl --context %s patch deployment web --type merge -p '{"spec":{"replicas":5}}'`, shopSpace)
	if err := w.shop.merge(ctx, deployments, namespace, "web", map[string]any{"spec": map[string]any{"replicas": 5}}); err != nil {
		return err
	}
	if err := w.awaitInvariants(ctx, func(ctx context.Context) error { return w.running(ctx, 5, w.locations[:2]...) }); err != nil {
		return err
	}
	for _, l := range w.locations[:2] {
		if err := w.show(ctx, l.api, namespace, "deployments"); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) tellLabel(ctx context.Context) error {
	south := w.locations[1]
	w.say("South goes into maintenance: the Placement no longer selects it, and the agent\nremoves there what it had made, and nothing else. (The namespace stays: it was\nonly implied.)\n")
	if err := w.setStage(ctx, south, "maintenance"); err != nil {
		return err
	}
	if err := w.awaitInvariants(ctx, nil); err != nil {
		return err
	}
	if err := w.show(ctx, south.api, namespace, builtIn...); err != nil {
		return err
	}
	w.say("The status of an object in the space is that of all its locations together. Now\nit is that of north:\n")
	if w.locations[0].simulated {
		err := eventually(ctx, func(ctx context.Context) error {
			object, err := w.shop.get(ctx, newObject("apps/v1", "Deployment", namespace, "web"))
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
	return w.show(ctx, w.shop, namespace, "deployments")
}

// setStage changes the stage label of a location.
func (w *world) setStage(ctx context.Context, l *location, stage string) error {
	w.command("kubectl --context %s label location %s %s=%s --overwrite", rootSpace, l.name, stageLabel, stage)
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{stageLabel: stage}}}
	return w.root.merge(ctx, locations, "", l.name, patch)
}
