package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/cli/inprocess"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	rootSpace = string(key.Root)
	// The heartbeat is short, so that a user soon sees a disconnected location.
	heartbeat    = time.Second
	disconnected = 2 * time.Second
)

// world runs all parts of a demo in this process: hubs, simulated clusters and agents. It stops all of them
// at the end.
type world struct {
	inprocess.World
	config Config
	files  *dataDir

	// kubeconfig has a context for each API of the demo.
	kubeconfig *clientcmdapi.Config
	hub        *inprocess.Hub
	root, shop *api
	locations  []*location
}

// location is a location with its cluster and agent.
type location struct {
	*api
	name      string
	simulated bool
	join      wire.Join
	// agent is the running agent, or nil.
	agent *inprocess.Process
}

// startHub starts a hub. If simulates is true, its spaces simulate clusters.
func (w *world) startHub(ctx context.Context, name string, simulates bool) (*inprocess.Hub, error) {
	config := hub.DefaultConfig()
	config.PlainTables = simulates
	config.DataDir = filepath.Join(w.files.path, name)
	config.Listen = "127.0.0.1:0"
	config.Heartbeat, config.Disconnected = heartbeat, disconnected
	config.UnsafeNoFsync = true // the data ends with this process
	config.Logger = w.files.logger.With("hub", name)
	return w.StartHub(ctx, name, config)
}

// startClusters starts the hub and the clusters.
func (w *world) startClusters(ctx context.Context) (err error) {
	w.kubeconfig = clientcmdapi.NewConfig()
	if w.hub, err = w.startHub(ctx, "hub", false); err != nil {
		return err
	}
	if w.root, err = w.addContext(inSpace(w.hub, key.Root), rootSpace, "default"); err != nil {
		return err
	}
	if w.shop, err = w.addContext(inSpace(w.hub, shopSpace), shopSpace, namespace); err != nil {
		return err
	}
	if err := w.addClusters(ctx); err != nil {
		return err
	}
	w.kubeconfig.CurrentContext = shopSpace
	if err := clientcmd.WriteToFile(*w.kubeconfig, w.kubeconfigFile()); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

// startAgents creates the locations, and starts their agents.
func (w *world) startAgents(ctx context.Context) error {
	for i, l := range w.locations {
		if err := w.enrol(ctx, l, stageOf(i, len(w.locations))); err != nil {
			return err
		}
		if err := w.startAgent(ctx, l); err != nil {
			return err
		}
	}
	return nil
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

// anyReal reports whether a location has a cluster of the user.
func (w *world) anyReal() bool {
	return slices.ContainsFunc(w.locations, func(l *location) bool { return !l.simulated })
}

func (w *world) kubeconfigFile() string { return filepath.Join(w.files.path, "kubeconfig") }

// addContext adds the current context of a kubeconfig under a name, and returns a client for it.
func (w *world) addContext(from *clientcmdapi.Config, name, namespace string) (*api, error) {
	from = from.DeepCopy()
	if err := clientcmdapi.MinifyConfig(from); err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %q: %w", name, err)
	}
	if err := clientcmdapi.FlattenConfig(from); err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %q: %w", name, err)
	}
	current := from.Contexts[from.CurrentContext]
	w.kubeconfig.Clusters[name] = from.Clusters[current.Cluster]
	w.kubeconfig.AuthInfos[name] = from.AuthInfos[current.AuthInfo]
	w.kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config, err := clientcmd.NewNonInteractiveClientConfig(*w.kubeconfig, name, nil, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %q: %w", name, err)
	}
	return newAPI(name, config)
}

// inSpace returns the operator's kubeconfig of a hub for one space.
func inSpace(h *inprocess.Hub, space key.Space) *clientcmdapi.Config {
	return h.Kubeconfig(route.Space(space).String())
}

// enrol creates a location and a join token for its agent.
func (w *world) enrol(ctx context.Context, l *location, stage string) (err error) {
	object := objectOf("Location", l.name)
	object.SetLabels(map[string]string{stageLabel: stage})
	if err := w.root.apply(ctx, object); err != nil {
		return err
	}
	l.join, err = w.hub.Enrol(ctx, key.Location(l.name))
	return err
}

// startAgent starts the agent of a location.
func (w *world) startAgent(ctx context.Context, l *location) (err error) {
	l.agent, err = w.StartAgent(ctx, agent.Config{
		Join: l.join, Target: l.api.config, Version: "demo",
		DataDir: filepath.Join(w.files.path, "agents", l.name),
		Logger:  w.files.logger.With("agent", l.name),
	})
	return err
}

// stopAgent stops the agent of a location.
func (w *world) stopAgent(l *location) error {
	err := l.agent.Stop()
	l.agent = nil
	return err
}
