package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/hub/controllers"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// shutdownTimeout bounds how long requests may take to end when the hub stops.
	shutdownTimeout = 5 * time.Second
	// idleTimeout bounds how long a connection may be kept without a request.
	idleTimeout = 3 * time.Minute
	// readHeaderTimeout bounds how long a client may take to send a request's headers.
	readHeaderTimeout = 20 * time.Second
	// minPing and maxPing bound how long a client may take to answer a ping of HTTP/2, by default.
	minPing = 2 * time.Second
	maxPing = 15 * time.Second
	// maxFrame is the largest frame of HTTP/2 that a client may send, in bytes, the least that
	// there can be: each connection keeps a buffer for the largest that it had.
	maxFrame = 16 << 10
	// retryLoop is how long the hub waits before it runs a loop again that has failed.
	retryLoop = time.Second
)

// Ready notifies the caller of Run that the hub serves.
type Ready struct {
	// URL is where it serves; Kubeconfig is the file of an operator's kubeconfig.
	URL, Kubeconfig string
}

// Run runs a hub until the context ends, and then stops it: first requests, then the
// loops, then the log. ready is called once, when the hub serves.
func Run(ctx context.Context, config Config, ready func(Ready)) (err error) {
	if err := config.Validate(); err != nil {
		return err
	}
	lock, err := etcd.LockDir(config.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", config.Listen)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", config.Listen, err)
	}
	defer func() { _ = listener.Close() }() // usually the server has closed it

	h, err := newHub(ctx, config, listener.Addr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if config.made != nil {
		config.made(h)
	}
	kubeconfig, err := h.endpoints.WriteKubeconfig()
	if err != nil {
		return err
	}
	return h.run(ctx, listener, func() { ready(Ready{URL: h.endpoints.URL(), Kubeconfig: kubeconfig}) })
}

// run serves and runs the loops until the context ends or one of them fails.
func (h *Hub) run(ctx context.Context, listener net.Listener, ready func()) error {
	server := h.newServer(ctx)
	// The tail must outlive the server and the loops, which wait for revisions.
	tailCtx, stopTail := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTail()
	tailed := make(chan struct{})
	unreadable := make(chan error, 1)
	go func() {
		defer close(tailed)
		if err := h.log.Tail(tailCtx, h.writer, h.gate.Hooks()); errors.Is(err, etcd.ErrSealed) {
			unreadable <- err
		}
	}()
	defer func() { stopTail(); <-tailed }()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.keys.need(ctx, unreadable) })
	group.Go(func() error {
		err := server.ServeTLS(listener, "", "")
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve: %w", err)
	})
	group.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(stop); err != nil {
			return server.Close()
		}
		return nil
	})
	group.Go(func() error { return h.work(ctx, ready) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// newServer makes the HTTPS server. Requests end with the context: open
// watches and sessions do not hold up a stop.
func (h *Hub) newServer(ctx context.Context) *http.Server {
	server := &http.Server{
		Handler:           h.front.handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		// Pings detect clients that have vanished: otherwise the buffers of the network would accept data for them for a
		// long time.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: h.config.Heartbeat, PingTimeout: h.config.pingTimeout(),
			MaxReadFrameSize: maxFrame,
		},
		BaseContext: func(net.Listener) context.Context { return ctx },
		// What net/http says of single connections.
		ErrorLog: slog.NewLogLogger(h.config.Logger.Handler(), slog.LevelDebug),
	}
	h.endpoints.Serve(server)
	return server
}

// work waits for the table, calls ready once requests are served, and runs the loops.
func (h *Hub) work(ctx context.Context, ready func()) error {
	prepare := func(ctx context.Context) error { return h.spaces.EnsureNamespace(ctx, key.Root, "default") }
	if err := h.gate.Open(ctx, prepare); err != nil {
		return err
	}
	ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for { // the table was lost and loaded again
			if err := h.gate.Open(ctx, prepare); err != nil {
				return err
			}
		}
	})
	own := h.controllers()
	for _, loop := range h.loops(own) {
		group.Go(func() error { return h.goOn(ctx, loop) })
	}
	elected := append(own.Loops(), controllers.Loop{Name: compacting, Run: h.standToCompact}, controllers.Loop{Name: resealing, Run: h.log.Reencryption().Run})
	for _, loop := range elected {
		group.Go(func() error { return h.hubs.elections.Run(ctx, loop.Name, loop.Run) })
	}
	return group.Wait()
}

// loops are what every hub does by itself while it runs. What only one of those that share a
// log may do it is elected to, see work.
func (h *Hub) loops(own *controllers.Controllers) []func(context.Context) error {
	followKeys := func(ctx context.Context) error { return h.keys.follow(ctx, h.log) }
	return []func(context.Context) error{
		h.hubs.member.Run, h.hubs.writer.Run, h.agents.Run, h.keep, h.giveBack, h.endpoints.Follow, h.issuers.Follow, followKeys, own.Count, h.watch,
	}
}

// controllers are what the hub writes by itself.
func (h *Hub) controllers() *controllers.Controllers {
	return controllers.New(controllers.Config{
		Table: h.table, Log: h.log, Kinds: h.registry, Spaces: h.spaces, Limits: h.limits,
		Progress: h.progress, Digest: h.renderer.Digest, Pruned: h.pruned, Releases: h.releases, Unreturned: h.unreturned, Computed: h.statuses, Changed: h.changed, Summaries: h.summaries, Summed: h.summed,
		Rules: h.engine.Rules, Health: h.engine.Health, Upsynced: h.upsynced, Sessions: h.sessions, Gone: h.present.Gone,
		Answers: h.gate.Answers, CheckLog: h.gate.CommittedWithPing,
		Consumers: h.exports.Bindings, BindingTo: h.exports.BindingTo, ChangedViews: h.shelved, ExportViewURL: h.endpoints.ExportViewURL,
		SpaceURL: h.endpoints.SpaceURL, Settling: h.config.BatchDelay, RoomRetry: h.config.RoomRetry, Disconnected: h.config.Disconnected, Meter: h.flow, Logger: h.config.Logger, Now: h.config.Now,
	})
}

// watchInterval is how often the hub looks after what counts.
const watchInterval = 250 * time.Millisecond

// watch logs objects that take long to count, until the context ends.
func (h *Hub) watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = h.watchdog.Check(h.config.Now()) // the liveness probe reports the error
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// goOn runs a loop until the context ends, and runs it again if it fails.
func (h *Hub) goOn(ctx context.Context, loop func(context.Context) error) error {
	for {
		err := loop(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.config.Logger.Error("a loop of the hub has ended, starting it again", "error", err)
		select {
		case <-time.After(retryLoop):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
