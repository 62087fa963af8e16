package demo

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

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

// world is all parts of a demo.
type world struct {
	*narrator
	inprocess.World
	config Config
	dir    string
	log    *os.File
	logger *slog.Logger

	// kubeconfig has a context for each API of the demo.
	kubeconfig *clientcmdapi.Config
	hub        *inprocess.Hub
	root, shop *api
	locations  []*location
	// found is the result of the last check in which the invariants held.
	found count
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
	config.DataDir = filepath.Join(w.dir, name)
	config.Listen = "127.0.0.1:0"
	config.Heartbeat, config.Disconnected = heartbeat, disconnected
	config.UnsafeNoFsync = true // the data ends with this process
	config.Logger = w.logger.With("hub", name)
	return w.StartHub(ctx, name, config)
}

// begin starts the hub, the clusters and the agents.
func (w *world) begin(ctx context.Context) (err error) {
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
	w.introduce()
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

func (w *world) kubeconfigFile() string { return filepath.Join(w.dir, "kubeconfig") }

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
		DataDir: filepath.Join(w.dir, "agents", l.name),
		Logger:  w.logger.With("agent", l.name),
	})
	return err
}

// stopAgent stops the agent of a location.
func (w *world) stopAgent(l *location) error {
	err := l.agent.Stop()
	l.agent = nil
	return err
}
