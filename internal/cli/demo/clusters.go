package demo

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/cli/inprocess"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// locationName names the i-th location.
func locationName(i int) string {
	if names := []string{"north", "south", "east", "west"}; i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("place-%d", i+1)
}

// stageOf returns the initial stage label of the i-th of n locations: production for all, but test
// for the last of three or more.
func stageOf(i, n int) string {
	if n > minLocations && i == n-1 {
		return "test"
	}
	return production
}

// addClusters adds a cluster for each location: first the given ones, then spaces of a second hub.
func (w *world) addClusters(ctx context.Context) error {
	var simulator *inprocess.Hub
	for i := range w.config.Locations {
		l := &location{name: locationName(i), simulated: i >= len(w.config.Kubeconfigs)}
		var kubeconfig *clientcmdapi.Config
		var err error
		if !l.simulated {
			file := w.config.Kubeconfigs[i]
			if kubeconfig, err = clientcmd.LoadFromFile(file); err != nil {
				return fmt.Errorf("read kubeconfig %q: %w", file, err)
			}
		} else {
			if simulator == nil {
				if simulator, err = w.startHub(ctx, "clusters", true); err != nil {
					return err
				}
			}
			kubeconfig = inSpace(simulator, key.Space(l.name))
		}
		if l.api, err = w.addContext(kubeconfig, l.name, namespace); err != nil {
			return err
		}
		if l.simulated {
			if err := w.simulate(ctx, simulator, l); err != nil {
				return err
			}
		}
		w.locations = append(w.locations, l)
	}
	return nil
}

// simulate creates a space that simulates a cluster, and runs the controller that makes its
// Deployments ready.
func (w *world) simulate(ctx context.Context, simulator *inprocess.Hub, l *location) error {
	config, err := simulator.Config(route.Space(key.Root).String())
	if err != nil {
		return err
	}
	root, err := newAPI("clusters", config)
	if err != nil {
		return err
	}
	if err := root.apply(ctx, objectOf("Space", l.name)); err != nil {
		return err
	}
	if err := l.served(ctx); err != nil {
		return err
	}
	w.Start(ctx, "stand-in of "+l.name, func(ctx context.Context) error { return runWorkloads(ctx, l.api.config) })
	return nil
}

// served waits until a new space is served.
func (a *api) served(ctx context.Context) error {
	return eventually(ctx, func(ctx context.Context) error {
		_, err := a.get(ctx, newObject("v1", "Namespace", "", "default"))
		if apierrors.IsNotFound(err) {
			a.kinds.Reset()
		}
		return err
	})
}

func (w *world) anyReal() bool {
	return slices.ContainsFunc(w.locations, func(l *location) bool { return !l.simulated })
}

// objectOf returns an Orrery object without a spec.
func objectOf(kind, name string) *unstructured.Unstructured {
	return newObject(v1alpha1.GroupVersion.String(), kind, "", name)
}

func newObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
