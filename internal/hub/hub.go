package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/access"
	"orrery.dev/orrery/internal/agents"
	"orrery.dev/orrery/internal/ask"
	"orrery.dev/orrery/internal/audit"
	"orrery.dev/orrery/internal/controllers"
	"orrery.dev/orrery/internal/credentials"
	"orrery.dev/orrery/internal/endpoint"
	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/fair"
	"orrery.dev/orrery/internal/issuers"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds/discovery"
	"orrery.dev/orrery/internal/kinds/registry"
	"orrery.dev/orrery/internal/leftout"
	"orrery.dev/orrery/internal/limits"
	"orrery.dev/orrery/internal/lineage"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/prune"
	"orrery.dev/orrery/internal/release"
	"orrery.dev/orrery/internal/render"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/seal"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/standing"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/tally"
	"orrery.dev/orrery/internal/view"
)

const (
	// largeBodies is how many requests may send large bodies at once: decoded, a body takes
	// several times its size.
	largeBodies = 16
	// shutdownTimeout bounds how long requests may take to end when the hub stops.
	shutdownTimeout = 5 * time.Second
	// committedWait bounds how long a request waits for the table to show what
	// was acknowledged before it.
	committedWait = 10 * time.Second
	// idleTimeout bounds how long a connection may be kept without a request.
	idleTimeout = 3 * time.Minute
	// readHeaderTimeout bounds how long a client may take to send a request's headers.
	readHeaderTimeout = 20 * time.Second
	// minPing and maxPing bound how long a client may take to answer a ping of HTTP/2.
	minPing = 2 * time.Second
	maxPing = 15 * time.Second
)

// Hub is one hub process.
type Hub struct {
	config Config
	// endpoints are the URLs under which it is reached.
	endpoints *endpoint.Set
	ca        *enroll.Authority
	clients   clients
	log       *store.Log
	// sealer encrypts values of the log.
	sealer *seal.Sealer
	// writer changes the table; only the tail uses it.
	writer      *table.Writer
	table       *table.Table
	engine      *placement.Engine
	tally       *tally.Tally
	lineage     *lineage.Lineage
	registry    *registry.Registry
	documents   *discovery.Server
	spaces      *space.Server
	usage       *limits.Usage
	limits      *limits.Limits
	views       *view.Server
	sessions    *agents.Sessions
	agents      *agents.Server
	questions   *ask.Server
	tokens      *credentials.Server
	renderer    *render.Renderer
	metrics     http.Handler
	access      *access.Guard
	grants      *access.Grants
	issuers     *issuers.Issuers
	audit       *audit.Log
	enrolments  *access.Enrolments
	requestInfo *request.RequestInfoFactory
	// reads and writes bound the requests that are worked on at once, and share turns
	// between spaces and locations. Those of agents have their own.
	reads, writes respond.Turns
	// bodies bounds how many requests send large bodies at once.
	bodies fair.Bodies
	// spaceWrites bounds what is written into spaces.
	spaceWrites *fair.Rates
	phase       *phase
	// copying is held while a backup is made.
	copying sync.Mutex
	// answers is since when the log answers.
	answers     *answering
	connections *controllers.Connections
	// pruned adds up the removals that wait, and what owners have confirmed.
	pruned *prune.Index
	// releases has the Helm releases that Placements match in part.
	releases *release.Index
	// leftOut has the returned statuses that do not fit.
	leftOut *leftout.Index
	// standing completes Spaces and Locations that are read.
	standing *standing.Standing
	// changed wakes the controller that writes counts.
	changed controllers.Signal
}

// Ready tells the caller of Run that the hub serves.
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
	lock, err := store.LockDir(config.DataDir)
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
	defer func() { err = errors.Join(err, h.closeLog()) }()
	if config.made != nil {
		config.made(h)
	}
	kubeconfig := h.adminKubeconfig()
	if err := h.writeAdminKubeconfig(kubeconfig); err != nil {
		return err
	}
	return h.run(ctx, listener, func() { ready(Ready{URL: h.endpoints.Default().URL, Kubeconfig: kubeconfig}) })
}

// newHub opens the log and makes the hub's parts; nothing runs yet.
func newHub(ctx context.Context, config Config, addr net.Addr) (*Hub, error) {
	h := &Hub{config: config, requestInfo: newRequestInfoResolver(), lineage: &lineage.Lineage{}, changed: controllers.NewSignal(), phase: newPhase(), answers: newAnswering(config.Now)}
	h.releases, h.leftOut = release.New(), leftout.New(h.changed.Raise)
	h.pruned = prune.New(func(l key.Location) { h.sessions.Poke(l) })
	var err error
	if h.ca, err = enroll.LoadOrCreate(config.DataDir, config.Now); err != nil {
		return nil, err
	}
	if h.endpoints, err = advertised(config, addr, h.ca.PEM); err != nil {
		return nil, err
	}
	if h.registry, err = registry.New(); err != nil {
		return nil, fmt.Errorf("compile the built-in kinds: %w", err)
	}
	h.documents = discovery.NewServer()
	h.renderer = render.New(h.registry.Builtin(key.Root))
	h.engine = placement.New()
	h.usage = limits.NewUsage()
	h.tally = tally.New(tally.Config{Digest: h.renderer.Digest})
	h.grants = access.NewGrants()
	h.writer = table.New(table.Config{
		Deriver: h.engine, Observer: observers{h.usage, h.tally, h.lineage, h.pruned, h.releases, h.grants, h.changed},
		WindowSteps: config.WindowRevisions, WindowBytes: config.WindowBytes,
	})
	h.table = h.writer.Table
	h.limits = limits.New(h.table, h.usage)
	if h.sealer, err = openSealer(config); err != nil { //nolint:contextcheck // it outlives the context, with the tail; closeLog ends it
		return nil, err
	}
	if h.log, err = store.Open(ctx, store.Config{
		DataDir: config.DataDir, Servers: config.EtcdServers, Quota: config.Quota, UnsafeNoFsync: config.UnsafeNoFsync,
		Sealer: h.sealer, Logger: config.Logger,
	}); err != nil {
		h.sealer.Close()
		return nil, err
	}
	if err := h.connectParts(ctx); err != nil {
		return nil, errors.Join(err, h.closeLog())
	}
	return h, nil
}

// connectParts makes the parts that need the log or the table.
func (h *Hub) connectParts(ctx context.Context) (err error) {
	if h.issuers, err = openIssuers(ctx, h.config); err != nil {
		return err
	}
	if h.audit, err = audit.Open(h.config.Audit); err != nil {
		return err
	}
	h.enrolments = access.NewEnrolments(access.EnrolmentsConfig{
		Authority: h.ca, Table: h.table, Log: h.log, Life: h.config.CredentialLife, Late: h.config.CredentialLate,
		Logger: h.config.Logger, Now: h.config.Now,
	})
	h.access = access.New(access.Config{
		Authority: h.ca, Enrolments: h.enrolments, Table: h.table, Grants: h.grants, Catalog: h.catalogOf, Committed: h.waitCommitted, Issuers: h.issuers, Audit: h.audited(),
		Codecs: respond.Codecs(), Logger: h.config.Logger, Now: h.config.Now,
	})
	h.spaceWrites = fair.NewRates(spaceRate, spaceBurst)
	h.spaces, err = space.New(space.Config{
		Client: h.log.Client(), Prefix: store.Prefix, Table: h.table, Limits: h.limits, Kinds: h.registry, Now: h.config.Now,
		Room: room{h.log, h.spaceWrites}, Authorizer: h.access.Authorizer(), Admission: h.access.Admission(),
	})
	if err != nil {
		return err
	}
	h.standing = standing.New(standing.Config{Table: h.table, Tally: h.tally, Usage: h.usage, Log: h.log, Now: h.config.Now})
	reads := view.DefaultConfig()
	reads.Table, reads.Renderer = h.table, h.renderer
	// Every request has already waited, before it is known what it reads.
	reads.Committed = func(context.Context) error { return nil }
	reads.Complete = h.standing.Complete
	reads.Defines = h.defines
	if !h.config.PlainTables {
		reads.Counts = h.standing.Counts
	}
	reads.Premises = access.PremisesOf
	h.views, err = view.New(reads)
	if err != nil {
		return err
	}
	h.connections = controllers.NewConnections()
	h.bodies = fair.Bodies{Queue: fair.NewQueue(fair.Defaults(largeBodies))}
	h.reads, h.writes = h.turns(h.config.MaxReads), h.turns(h.config.MaxWrites)
	h.sessions = agents.NewSessions(h.config.Now, h.connections.Note)
	h.agents = agents.New(agents.Config{
		Table: h.table, Log: h.log, Lineage: h.lineage, Renderer: h.renderer, Sessions: h.sessions,
		Confirmations: h.pruned.Confirmations, Endpoints: h.endpointsFor, Premises: access.PremisesOf, Committed: h.waitCommitted,
		Requests: h.config.MaxReads, Bodies: h.bodies, Heartbeat: h.config.Heartbeat, Logger: h.config.Logger,
	})
	h.questions = ask.New(ask.Config{
		Table: h.table, Digest: h.renderer.Digest, Tally: h.tally, Pruned: h.pruned, Releases: h.releases, LeftOut: h.leftOut,
		Committed: h.waitCommitted, May: h.access.May, Logger: h.config.Logger,
	})
	h.tokens = credentials.New(credentials.Config{
		Table: h.table, Log: h.log, Authority: h.ca, Authorizer: h.access.Authorizer(), Committed: h.waitCommitted, Now: h.config.Now,
	})
	h.metrics = h.newMetrics()
	return nil
}

// turns are Turns for limit requests at once.
func (h *Hub) turns(limit int) respond.Turns {
	return respond.Turns{Queue: fair.NewQueue(fair.Defaults(limit)), Bodies: h.bodies}
}

// run serves and runs the loops until the context ends or one of them fails.
func (h *Hub) run(ctx context.Context, listener net.Listener, ready func()) error {
	server, err := h.newServer(ctx)
	if err != nil {
		return err
	}
	// The tail must outlive the server and the loops, which wait for revisions.
	tailCtx, stopTail := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTail()
	tailed := make(chan struct{})
	unreadable := make(chan error, 1)
	go func() {
		defer close(tailed)
		if err := h.log.Tail(tailCtx, h.writer, store.Hooks{Lost: h.lost, Loaded: h.phase.load, Asked: h.answers.note}); errors.Is(err, store.ErrSealed) {
			unreadable <- err
		}
	}()
	defer func() { stopTail(); <-tailed }()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.needKeys(ctx, unreadable) })
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
func (h *Hub) newServer(ctx context.Context) (*http.Server, error) {
	own := &serverCertificate{ca: h.ca, hosts: serverHosts(h.endpoints.Hosts()), now: h.config.Now}
	if _, err := own.get(nil); err != nil {
		return nil, err
	}
	return &http.Server{
		Handler:           h.handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		// Pings detect clients that have vanished: the network's buffers would take what
		// is sent to them for a long time.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: h.config.Heartbeat, PingTimeout: min(max(h.config.Heartbeat, minPing), maxPing),
		},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    quietTLS(h.config.Logger),
		TLSConfig:   h.tlsConfig(own),
		ConnState:   h.clients.note,
	}, nil
}

// tlsConfig is that of the server. Clients are told which authorities their certificates
// may be of, which changes when the hub's own is replaced.
func (h *Hub) tlsConfig(own *serverCertificate) *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: own.get,
		ClientCAs:      h.ca.Pool(),
		ClientAuth:     tls.RequestClientCert,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := config.Clone()
		now.ClientCAs = h.ca.Pool()
		return now, nil
	}
	return config
}

// observers shows changes to several observers, in order.
type observers []table.Observer

func (o observers) Reset() {
	for _, one := range o {
		one.Reset()
	}
}

func (o observers) Observe(rev int64, changes []table.Change) {
	for _, one := range o {
		one.Observe(rev, changes)
	}
}
