// Package cli is the command line of orrery-agent: it reads the configuration of
// the target and the hub, runs the agent of internal/agent until a stop signal,
// and prints an agent's status. It must not contain logic of the agent.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/agent/fencing"
	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/manifest"
	"orrery.dev/orrery/internal/lib/retry"
)

const (
	defaultDataDir = "/var/lib/orrery-agent"
	// stopTimeout is how long a clean stop may take.
	stopTimeout = 10 * time.Second
)

// runFlags are the flags of the command that runs the agent.
type runFlags struct {
	join, joinFile, kubeconfig, storeKey, dataDir, metrics, logLevel string
	proxyURL, proxyFile                                              string
	workers                                                          int
	shards, leaseNamespace                                           string
	leaseDuration                                                    time.Duration
}

// New returns the root command. version is printed by --version and reported to the hub.
func New(version string) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "orrery-agent",
		Short: "Keep a cluster equal to what an Orrery hub desires at its location",
		Long: `Keep a cluster equal to what an Orrery hub desires at its location, until the
agent receives SIGTERM or SIGINT.

The first start needs --join, as "orrery location add" prints it, and --kubeconfig
unless the agent runs in the cluster itself. The agent exchanges the join token, which
can be used once, for a credential that it renews by itself. The credential, the hub,
the target and the path of --store-key-file are stored in the data directory: later
starts need only --data-dir.

When the agent has joined its location and its cluster answers, it prints one line to
standard output. Its log goes to standard error.`,
		Example: `  orrery-agent --join-file join --kubeconfig berlin.kubeconfig
  echo TOKEN | orrery-agent --join - --kubeconfig berlin.kubeconfig
  orrery-agent --data-dir /var/lib/orrery-agent
  orrery-agent status`,
		Version: version, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error { return run(c, f, version) },
	}
	c.PersistentFlags().StringVar(&f.dataDir, "data-dir", defaultDataDir, "directory in which the agent keeps its state")
	flags := c.Flags()
	flags.StringVar(&f.join, "join", "", "the join token of the location; -: read it from standard input, since all users of a machine see arguments")
	flags.StringVar(&f.joinFile, "join-file", "", "a file with the join token")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig file of the target cluster (default: the cluster the agent runs in)")
	flags.StringVar(&f.storeKey, "store-key-file", "", "a file outside of the data directory, such as a mounted Secret, whose content is the key by which the store and the agent's credential are encrypted (default: they are not)")
	flags.StringVar(&f.proxyURL, "proxy-url", "", "the proxy by which the hub is reached, http://HOST:PORT or socks5://HOST:PORT; none: as HTTPS_PROXY and NO_PROXY say (default: the last one given)")
	flags.StringVar(&f.proxyFile, "proxy-file", "", "a file with such a URL, which may have a user and a password, http://USER:PASSWORD@HOST:PORT")
	flags.StringVar(&f.metrics, "metrics", "", "address to serve /metrics, /healthz and /readyz on (default: none)")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.IntVar(&f.workers, "workers", 0, "concurrent requests to the target (default: chosen by the agent)")
	flags.StringVar(&f.shards, "shards", "", "K/N: the agent is number K of N that share the location, each with the spaces that fall to it; 1/1: it has the whole (default: the last one given, or the whole)")
	flags.StringVar(&f.leaseNamespace, "lease-namespace", "", "the namespace of the target in which the agents of the location hold Leases, the same for all of them (default: the last one given, or "+manifest.Namespace+")")
	flags.DurationVar(&f.leaseDuration, "lease-duration", 0, "after how long without its agent the Lease of a shard is free, up to "+fencing.MaxDuration.String()+", the same for all agents of the location (default: the last one given, or "+fencing.DefaultDuration.String()+")")
	c.AddCommand(newStatus(&f.dataDir), newRBAC(&f.dataDir), newProfile(&f.dataDir))
	return c
}

func run(c *cobra.Command, f runFlags, version string) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	s, before, err := loadSetup(f, c.InOrStdin())
	if err != nil {
		return err
	}
	target, err := s.target()
	if err != nil {
		return err
	}
	storeKey, err := readStoreKey(s.StoreKeyFile, f.dataDir)
	if err != nil {
		return err
	}
	shard, err := s.shard()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	registry := prometheus.NewRegistry()
	running, err := agent.New(agent.Config{
		Join: s.Join, Target: target, ReloadTarget: s.target, DataDir: f.dataDir, Version: version, Metrics: registry, Workers: f.workers,
		StoreKey: storeKey, Logger: log, Given: s.Join.Token != before.Join.Token,
		Proxy: hubclient.Proxy{URL: s.ProxyURL, File: s.ProxyFile},
		Shard: shard, LeaseNamespace: s.LeaseNamespace, LeaseDuration: s.LeaseDuration,
	})
	if err != nil {
		return err
	}
	var now atomic.Pointer[agent.Agent]
	now.Store(running)
	stopServer, err := serveMetrics(f.metrics, registry, now.Load, log)
	if err != nil {
		return err
	}
	defer stopServer()
	if err := s.saveAfter(before, f.dataDir, log); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- agent.RunAnew(c.Context(), running, now.Store) }()
	select {
	case err := <-done:
		if err != nil && before.Join.Hub != "" { // the next start uses the setup of the last start that succeeded
			err = errors.Join(err, before.save(f.dataDir))
		}
		return err
	case <-running.Ready():
	}
	defer serveProfiles(f.dataDir, log)()
	announced := make(chan bool, 1)
	ctx, stop := context.WithCancel(c.Context())
	go func() {
		announced <- announce(ctx, c.OutOrStdout(), now.Load, fmt.Sprintf("orrery-agent ready: location %s, hub %s, target %s", s.Join.Location, s.Join.Hub, target.Host))
	}()
	err = wait(c.Context(), done)
	if stop(); !<-announced && err != nil {
		_, _ = fmt.Fprintln(c.OutOrStdout(), "orrery-agent ended before it was ready")
	}
	return err
}

// announceEvery is the interval at which announce checks whether the agent is ready.
const announceEvery = 50 * time.Millisecond

// announce writes the ready line once the agent has joined its location and its cluster answers. Before
// that it writes, once, the reason why the agent waits. Write errors are ignored, since a script may have
// closed the pipe. It returns false if it has written nothing before ctx ended.
func announce(ctx context.Context, out io.Writer, running func() *agent.Agent, ready string) (written bool) {
	for ; ctx.Err() == nil; retry.Pause(ctx, announceEvery) {
		switch why, known := agent.Awaits(running()); {
		case !known:
		case why == "":
			_, _ = fmt.Fprintln(out, ready)
			return true
		case !written:
			written = true
			_, _ = fmt.Fprintln(out, "orrery-agent waits:", why)
		}
	}
	return written
}

// wait returns the error with which the agent ended. After ctx has ended, it waits at most
// stopTimeout.
func wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("the agent did not stop within %s", stopTimeout)
	}
}

// serveMetrics serves /metrics, /healthz and /readyz on address until the returned function is
// called. Without an address it does nothing. running returns the agent that runs now.
func serveMetrics(address string, registry *prometheus.Registry, running func() *agent.Agent, log *slog.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	// A halted agent is healthy: a restart would not end the halt.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, http.StatusOK, notReady(running())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answerHealth(w, http.StatusServiceUnavailable, notReady(running()))
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: stopTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "error", err)
		}
	}()
	return func() {
		_ = server.Close() // the process ends in any case
		<-done
	}, nil
}

// notReady returns the reason why an agent is not ready: it is starting, it is halted, or it
// accepts no new desired objects; empty if it is ready.
func notReady(a *agent.Agent) string {
	select {
	case <-a.Ready():
		why := a.Halted()
		if failing := agent.StoreFailing(a); why == "" && failing != nil {
			why = "the store cannot be written, so nothing new is taken from the hub: " + failing.Error()
		}
		return why
	default:
		return "the agent is starting"
	}
}

// answerHealth responds with ok, or with the code and the reason if there is one.
func answerHealth(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if why == "" {
		code, why = http.StatusOK, "ok"
	}
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, why) // the client may be gone
}
