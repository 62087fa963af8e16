package hub

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"k8s.io/apiserver/pkg/admission"

	"orrery.dev/orrery/internal/hub/advertise"
	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/audit"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/auth/credentials"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/auth/oidc"
	"orrery.dev/orrery/internal/hub/engine/computed"
	"orrery.dev/orrery/internal/hub/engine/preview"
	"orrery.dev/orrery/internal/hub/kinds/discovery"
	"orrery.dev/orrery/internal/hub/kubeapi"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/hub/readiness"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
)

// largeBodies is how many requests may send large bodies at once: decoded, a body takes
// several times its size.
const largeBodies = 16

// arrivingBytes is how many bytes of bodies may arrive, or wait for a turn, at once.
const arrivingBytes = 64 << 20

// maxInspections is the maximum number of concurrent requests that agents answer. They have a queue of their
// own, so that a location that does not answer delays no other requests.
const maxInspections = 32

// Hub is the parts of one hub process that start, stop or run by themselves, and those
// that several others are given. Data flows from the first to the last.
type Hub struct {
	config    Config
	authority *enroll.Authority
	keys      *keys
	log       *etcd.Log
	issuers   *oidc.Issuers
	audit     *audit.Log
	*state
	sessions   *agentapi.Sessions
	endpoints  *advertise.Endpoints
	hubs       *hubs
	gate       *readiness.Gate
	enrolments *auth.Enrolments
	access     *auth.Guard
	spaces     *write.Server
	// spaceWrites limits the rate of writes to spaces.
	spaceWrites *fairqueue.Rates
	statuses    *computed.Statuses
	views       *read.Server
	agents      *agentapi.Server
	front       *front
}

// newHub opens the log and makes the hub's parts; nothing runs yet.
func newHub(ctx context.Context, config Config, addr net.Addr) (h *Hub, err error) {
	h = &Hub{config: config}
	if h.authority, err = enroll.LoadOrCreate(config.DataDir, config.Now); err != nil {
		return nil, err
	}
	if h.state, err = newState(&config, func(l key.Location) { h.sessions.Notify(l) }); err != nil { //nolint:contextcheck // renderings are the same at all hubs: none ends with a context
		return nil, err
	}
	h.endpoints, err = advertise.Open(advertise.Config{
		Addr: addr, Advertise: config.Advertise, AdvertiseCA: config.AdvertiseCA,
		Kubeconfig: filepath.Join(config.DataDir, "admin.kubeconfig"), Authority: h.authority, Table: h.table,
		Changed: func() { h.sessions.NotifyAll() }, Logger: config.Logger, Now: config.Now,
	})
	if err != nil {
		return nil, err
	}
	if h.keys, err = openKeys(&config); err != nil { //nolint:contextcheck // they outlive the context, with the tail; close ends them
		return nil, err
	}
	if h.log, err = etcd.Open(ctx, etcd.Config{
		DataDir: config.DataDir, Servers: config.EtcdServers, CAFile: config.EtcdCA, CertFile: config.EtcdCert, KeyFile: config.EtcdKey, Quota: config.quota(), UnsafeNoFsync: config.UnsafeNoFsync,
		Sealer: h.keys.Sealer, Logger: config.Logger,
	}); err != nil {
		h.keys.Close()
		return nil, err
	}
	h.limits.FollowQuota(func() int64 { return h.log.Capacity().Usage().Quota })
	h.hubs = h.join()
	h.sessions = agentapi.NewSessions(config.Now, h.hubs.writer)
	h.present.Follow(h.hubs.writer, h.sessions.TakenOver, h.sessions.Forget)
	if err = h.admit(ctx); err == nil {
		err = h.answer()
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// close ends the use of all files.
func (h *Hub) close() error {
	defer h.keys.Close()
	defer h.issuers.Close()
	return errors.Join(h.log.Close(), h.audit.Close())
}

// admit creates the parts that authenticate, authorize and admit requests.
func (h *Hub) admit(ctx context.Context) (err error) {
	if h.issuers, err = oidc.Open(ctx, h.config.AuthenticationConfig, h.config.Logger); err != nil {
		return err
	}
	if h.audit, err = audit.Open(h.config.Audit, h.config.Logger); err != nil {
		return err
	}
	h.gate = readiness.New(readiness.Config{
		Log: h.log, Table: h.table, LogIdentity: h.logIdentity, Silent: h.hubs.member.Silent, Logger: h.config.Logger, Now: h.config.Now,
		Confirm: func(ctx context.Context) error { return auth.Confirm(ctx, h.table) },
		Waited:  func(took time.Duration) { h.flow.waited.Observe(took.Seconds()) },
	})
	h.enrolments = auth.NewEnrolments(auth.EnrolmentsConfig{
		Authority: h.authority, Table: h.table, Log: h.log, Moves: h.moves, Committed: h.gate.Committed,
		Life: h.config.CredentialLife, Late: h.config.CredentialLate, Logger: h.config.Logger, Now: h.config.Now,
	})
	h.access = auth.New(auth.Config{
		Authority: h.authority, Enrolments: h.enrolments, Table: h.table, Grants: h.grants, Allowed: h.exports.Allowed, Catalog: h.catalogs().ForSpace, Committed: h.gate.Committed,
		Issuers: h.issuers, Audit: h.audit, Codecs: respond.Codecs(), Logger: h.config.Logger, Now: h.config.Now,
	})
	return nil
}

// answer makes the parts that serve what is let in.
func (h *Hub) answer() (err error) {
	h.spaceWrites = fairqueue.NewRates(spaceRate, spaceBurst)
	if h.spaces, err = write.New(write.Config{
		Client: h.log.Client(), Prefix: etcd.Prefix, Table: h.table, Limits: h.limits, Kinds: h.registry, Now: h.config.Now,
		Rules: h.rules, Summaries: h.summing, KindRules: h.kindRules, Room: room{h.log, h.spaceWrites}, Authorizer: h.access.Authorizer(), Exports: h.exports,
		Follows: h.access.Follows, Outdated: h.outdated,
		Admission: admission.NewChainHandler(h.access.Admission(), agentapi.TakeoverAdmission(h.table)),
		Preview:   preview.New(preview.Config{Table: h.table, Renderer: h.renderer, Compilers: h.engine.Compilers, May: h.access.May, Now: h.config.Now}).Tell,
	}); err != nil {
		return err
	}
	h.statuses = computed.New(computed.Config{Table: h.table, Progress: h.progress, Usage: h.usage, Capacity: h.log.Capacity(), Now: h.config.Now})
	if h.views, err = h.newViews(); err != nil {
		return err
	}
	bodies := fairqueue.Bodies{Queue: h.config.newQueue(largeBodies)}
	watches := h.config.newQueue(h.config.MaxWatches)
	arrivals := &respond.Arrivals{Budget: fairqueue.NewBudget(arrivingBytes), Read: requestbody.Prefetch, Expected: requestbody.Expected}
	limiter := func(limit int) respond.Limiter {
		return respond.Limiter{Queue: h.config.newQueue(limit), Bodies: bodies, Lasting: watches, Arrivals: arrivals}
	}
	alone := h.config.Disconnected / 3
	if h.log.Embedded() {
		alone = 0
	}
	h.agents = agentapi.New(agentapi.Config{
		Table: h.table, Log: h.log, LogIdentity: h.logIdentity, Renderer: h.renderer, Upsynced: h.upsynced, Sessions: h.sessions,
		Confirmations: h.pruned.Confirmations, Endpoints: h.endpoints.For, StreamConditions: auth.ConditionsOf, Committed: h.gate.Committed,
		Due: h.enrolments.Due, SignedBy: auth.SignedBy, Shard: auth.ShardOf,
		Requests: h.config.MaxReads, Bodies: bodies, Watch: h.flow, Heartbeat: h.config.Heartbeat, Alone: alone,
		QueueTimeout: h.config.QueueTimeout, InspectTimeout: h.config.InspectTimeout, Logger: h.config.Logger, Now: h.config.Now,
	})
	h.front = &front{
		endpoints: h.endpoints, gate: h.gate, guard: h.access, audit: h.audit, enrolments: h.enrolments, agents: h.agents,
		alive:    func() error { return h.watchdog.Check(h.config.Now()) },
		requests: h.flow.requests, requestInfo: newRequestInfoResolver(), reads: limiter(h.config.MaxReads), writes: limiter(h.config.MaxWrites),
		inspections: respond.Limiter{Queue: h.config.newQueue(maxInspections), Bodies: bodies, Arrivals: arrivals},
		backups:     &backups{log: h.log, table: h.table, logger: h.config.Logger},
	}
	h.front.kubernetes = kubeapi.New(kubeapi.Config{
		Catalogs: h.catalogs(), Exports: h.exports, Documents: discovery.NewServer(), Views: h.views, Spaces: h.spaces, Reviews: h.access.ReviewHandler,
		Tokens: credentials.Joins{Enrolments: h.enrolments, UID: h.agents.UID, Text: h.endpoints.Join}.Handler, UID: h.agents.UID,
		Reads: h.front.reads, Writes: h.front.writes, Committed: h.gate.Committed, RequestInfo: h.front.requestInfo, Logger: h.config.Logger,
	})
	h.front.queries = queries.New(queries.Config{
		Table: h.table, Digest: h.renderer.Digest, Renderer: h.renderer, Rules: h.engine.Rules, Progress: h.progress, Pruned: h.pruned, Releases: h.releases, LeftOut: h.unreturned,
		Committed: h.gate.Committed, May: h.access.May, MaySub: h.access.MaySub, StreamConditions: auth.ConditionsOf, Inspect: h.agents.Inspect, Logger: h.config.Logger,
	})
	h.front.tokens = credentials.New(credentials.Config{
		Table: h.table, Log: h.log, Authority: h.authority, Authorizer: h.access.Authorizer(), Committed: h.gate.Committed, Now: h.config.Now,
	})
	calls, reports := h.agents.Queues()
	h.front.metrics = (&measured{
		table: h.table, log: h.log, keys: h.keys, sessions: h.sessions, present: h.present, elections: h.hubs.elections, agents: h.agents, enrolments: h.enrolments,
		issuers: h.issuers, audit: h.audit, views: h.views, spaceWrites: h.spaceWrites, gate: h.gate, progress: h.progress, flow: h.flow,
		queues: map[string]*fairqueue.Queue{"read": h.front.reads.Queue, "write": h.front.writes.Queue, "look": h.front.inspections.Queue, "agent": calls, "report": reports, "large": bodies.Queue, "watch": watches},
	}).handler()
	return nil
}

func (h *Hub) catalogs() kubeapi.Catalogs { return kubeapi.Catalogs{Kinds: h.registry, Table: h.table} }

func (h *Hub) newViews() (*read.Server, error) {
	reads := read.DefaultConfig()
	reads.Table, reads.Renderer = h.table, h.renderer
	// Every request has already waited, before it is known what it reads.
	reads.Committed = func(context.Context) error { return nil }
	reads.Complete = h.statuses.Complete
	reads.Defines, reads.DefinedBy = h.catalogs().Defines, h.catalogs().DefinedBy
	if !h.config.PlainTables {
		reads.Counts = h.statuses.Counts
	}
	reads.StreamConditions = auth.ConditionsOf
	return read.New(reads)
}
