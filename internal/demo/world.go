package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/mapper"
	"orrery.dev/orrery/internal/wire"
)

const (
	rootSpace = "root"
	// A location of the demo counts as disconnected soon, so that one can see it.
	heartbeat    = time.Second
	disconnected = 2 * time.Second
)

// world is everything that runs in a demo.
type world struct {
	*narrator
	config Config
	dir    string
	log    *os.File
	logger *slog.Logger
	// abort ends the story when a part of the world ends by itself.
	abort context.CancelCauseFunc

	// kubeconfig has a context for each API of the story.
	kubeconfig *clientcmdapi.Config
	root, shop *api
	locations  []*location
	parts      []*part
	// found is what there was when the invariants last held.
	found count
}

// location is a location with its cluster and agent.
type location struct {
	*api
	name      string
	simulated bool
	join      wire.Join
	// agent runs, or nil.
	agent *part
}

// part is something that runs beside the story.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // after done
}

// start runs something until it is stopped. It outlives the context, so that
// the world can be stopped in order.
func (w *world) start(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{cancel: cancel, done: make(chan struct{})}
	w.parts = append(w.parts, p)
	go func() {
		defer close(p.done)
		p.err = run(ctx)
		if ctx.Err() == nil {
			w.abort(fmt.Errorf("%s ended: %w", name, p.err))
		}
	}()
	return p
}

// stop stops a part and waits for it; a second time it returns the same.
func (p *part) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// startHub runs a hub and returns the kubeconfig of its operator. The spaces of
// one that simulates look like clusters.
func (w *world) startHub(ctx context.Context, name string, simulates bool) (*clientcmdapi.Config, error) {
	config := hub.DefaultConfig()
	config.PlainTables = simulates
	config.DataDir = filepath.Join(w.dir, name)
	config.Listen = "127.0.0.1:0"
	config.Heartbeat, config.Disconnected = heartbeat, disconnected
	config.UnsafeNoFsync = true // nothing of it is to outlive this process
	config.Logger = w.logger.With("hub", name)
	served := make(chan hub.Ready, 1)
	p := w.start(ctx, "hub "+name, func(ctx context.Context) error {
		return hub.Run(ctx, config, func(r hub.Ready) { served <- r })
	})
	select {
	case ready := <-served:
		kubeconfig, err := clientcmd.LoadFromFile(ready.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig of hub %s: %w", name, err)
		}
		return kubeconfig, nil
	case <-p.done:
		return nil, fmt.Errorf("start hub %s: %w", name, p.err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin starts the hub, the clusters and the agents.
func (w *world) begin(ctx context.Context) error {
	w.kubeconfig = clientcmdapi.NewConfig()
	operator, err := w.startHub(ctx, "hub", false)
	if err != nil {
		return err
	}
	if w.root, err = w.addContext(inSpace(operator, rootSpace), rootSpace, "default"); err != nil {
		return err
	}
	if w.shop, err = w.addContext(inSpace(operator, shopSpace), shopSpace, namespace); err != nil {
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

// addContext adds the current context of a kubeconfig under a name, and makes a
// client of it.
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

// inSpace points an operator's kubeconfig at another space.
func inSpace(operator *clientcmdapi.Config, space string) *clientcmdapi.Config {
	config := operator.DeepCopy()
	for _, cluster := range config.Clusters {
		cluster.Server = strings.TrimSuffix(cluster.Server, rootSpace) + space
	}
	return config
}

// enrol creates a location and makes a join token for its agent.
func (w *world) enrol(ctx context.Context, l *location, stage string) error {
	object := objectOf("Location", l.name)
	object.SetLabels(map[string]string{stageLabel: stage})
	if err := w.root.apply(ctx, object); err != nil {
		return err
	}
	body, err := w.root.tables.Post().AbsPath("apis", v1alpha1.Group, v1alpha1.Version, "locations", l.name, "token").
		SetHeader("Content-Type", "application/json").Body([]byte("{}")).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("make a token for %q: %w", l.name, err)
	}
	var token v1alpha1.LocationToken
	if err := json.Unmarshal(body, &token); err != nil {
		return fmt.Errorf("make a token for %q: %w", l.name, err)
	}
	l.join, err = wire.ParseJoin(token.Status.Token)
	return err
}

// startAgent runs a location's agent.
func (w *world) startAgent(ctx context.Context, l *location) error {
	agent, err := mapper.New(mapper.Config{
		Join: l.join, Target: l.api.config, Version: "demo",
		DataDir: filepath.Join(w.dir, "agents", l.name),
		Logger:  w.logger.With("agent", l.name),
	})
	if err != nil {
		return err
	}
	l.agent = w.start(ctx, "agent "+l.name, agent.Run)
	return nil
}

// stopAgent stops a location's agent.
func (w *world) stopAgent(l *location) error {
	err := l.agent.stop()
	l.agent = nil
	return err
}
