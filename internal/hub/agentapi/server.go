// Package agentapi is the hub's side of the protocol with agents: sessions that stream the desired
// objects of a location, comparisons of these, reports, and responses to inspect requests.
//
// A location reads and writes only its own data. It may take over the objects of a removed location in
// its cluster. Only one location can do that, and only after the other one is removed. The package must
// never give a location the ownership of an existing one, because its agent would take over the other
// location's objects. It computes neither the desired objects nor the meaning of reports.
package agentapi

import (
	"cmp"
	"context"
	"net/http"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Server serves agents. It resolves each request once, and passes it on to the part that serves its
// call. It is safe for concurrent use. Run must run while it serves.
type Server struct {
	config    Config
	sessions  *Sessions
	locations *locations
	resolver  *resolver
	// requests limits concurrent requests, and limits those of each agent.
	requests respond.Limiter
	limits   *agentLimits

	streams     *streams
	comparisons *comparisons
	objects     *objectFetcher
	store       *reportStore
	reports     *reportServer
	statuses    *statusReceiver
	inspector   *inspector
}

// New returns a Server.
func New(config Config) *Server {
	if config.Watch == nil {
		config.Watch = unwatched{}
	}
	requests := fairqueue.Defaults(config.Requests)
	requests.Timeout, requests.Reserve = cmp.Or(config.QueueTimeout, requests.Timeout), 0 // operators send no agents' requests
	timeout := cmp.Or(config.QueueTimeout, respond.Timeout)
	a := &Server{
		config: config, sessions: config.Sessions,
		locations: &locations{table: config.Table, renderer: config.Renderer, confirmations: config.Confirmations, heartbeat: config.Heartbeat},
		requests:  respond.Limiter{Queue: fairqueue.NewQueue(requests), Bodies: config.Bodies},
		limits:    newAgentLimits(requests, config.Now),
		store:     newReportStore(config.Table, config.Log, config.Committed),
	}
	a.resolver = &resolver{locations: a.locations, sessions: a.sessions, limits: a.limits, number: config.Shard}
	a.objects = &objectFetcher{locations: a.locations, logIdentity: config.LogIdentity, sent: config.Watch.Sent, logger: config.Logger}
	a.comparisons = &comparisons{
		locations: a.locations, reports: a.store, logIdentity: config.LogIdentity,
		queue:   fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxWalks, Share: 1, Queue: 1, Timeout: timeout}),
		indexes: newWalkIndexes(walkBytes), heartbeat: config.Heartbeat,
		active: a.recordRequest, sent: config.Watch.Sent, logger: config.Logger,
	}
	a.reports = &reportServer{
		store: a.store, limits: a.limits, sessions: a.sessions, usage: config.Upsynced,
		queue: fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxWalks, Share: 1, Queue: reportBodies, Timeout: timeout}),
	}
	a.statuses = &statusReceiver{limit: a.limits.statuses, sessions: a.sessions, signedBy: config.SignedBy}
	a.inspector = &inspector{
		locations: a.locations, sessions: a.sessions, timeout: cmp.Or(config.InspectTimeout, defaultInspectTimeout),
		pending: newInspections(cmp.Or(config.QueueTimeout, inspectQueueTimeout)),
	}
	a.streams = &streams{
		config: &a.config, locations: a.locations, sessions: a.sessions, limits: a.limits, reports: a.store, inspections: a.inspector.pending,
	}
	return a
}

// Run writes reports to the log until the context ends.
func (a *Server) Run(ctx context.Context) error { return a.store.writer.run(ctx) }

// Queues returns the queues of all requests and of report requests, for metrics.
func (a *Server) Queues() (requests, reports *fairqueue.Queue) {
	return a.requests.Queue, a.limits.queue
}

// Waiting returns the number of batches of reports that wait to be written.
func (a *Server) Waiting() int { return len(a.store.writer.queue) }

// Refusals returns the number of requests that were refused by a rate limit of their location.
func (a *Server) Refusals() int { return a.limits.refusals() }

// UID returns the UID of a location that is not being deleted. It fails with NotFound if there is
// none.
func (a *Server) UID(l key.Location) (string, error) { return a.locations.uid(l) }

// Inspect requests the live object and the result of its next apply from the agent of a location,
// over its session. all includes the values of other owners. The caller must hold no locks while it
// waits. An error is a Status with a reason of the API.
func (a *Server) Inspect(ctx context.Context, l key.Location, o key.Object, all bool) (wire.InspectResponse, error) {
	return a.inspector.inspect(ctx, l, o, all)
}

// Serve serves a request at the root of a location's agent.
func (a *Server) Serve(w http.ResponseWriter, r *http.Request, root route.Root) {
	_, call := route.Parse(r.URL.Path)
	l := key.Location(root.Name)
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	if v := r.Header.Get(wire.Header); v != wire.ProtocolVersion {
		a.resolver.refuse(r, l, v)
		respond.Error(w, r, respond.BadRequest("header %s is %q: this hub speaks version %s", wire.Header, v, wire.ProtocolVersion))
		return
	}
	if err := a.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	from, err := a.resolver.resolve(r, l)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	if !from.shard.Whole() {
		w.Header().Set(wire.ShardHeader, from.shard.String())
	}
	if call == route.Desired && r.Method == http.MethodGet {
		a.streams.serve(w, r, from)
		return
	}
	defer a.sessions.beginRequest(from.session())()
	a.recordRequest(from.session())
	switch {
	case r.Method != http.MethodPost:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	case call == route.Walk || call == route.ReportsWalk:
		a.comparisons.serveInTurn(w, r, walkOf{from, call == route.ReportsWalk})
	default:
		a.requests.Serve(root, w, r, func(w http.ResponseWriter, r *http.Request) { a.serveCall(w, r, from, call) })
	}
}

// recordRequest notifies other hubs of an agent that sends requests without a session.
func (a *Server) recordRequest(id key.Session) {
	if a.config.Alone > 0 {
		row, _ := a.config.Table.Get(id.Key())
		a.sessions.requestWithoutSession(id, row != nil, a.config.Alone)
	}
}

// serveCall serves the calls of an agent other than its session and comparisons.
func (a *Server) serveCall(w http.ResponseWriter, r *http.Request, from agentRequest, call string) {
	switch call {
	case route.Fetch:
		a.objects.serve(w, r, from)
	case route.LogIdentity:
		serveLogIdentity(w, r, a.config.Table, a.config.LogIdentity)
	case route.Namespaces:
		serveNamespaces(w, r, a.config.Table, a.config.LogIdentity, a.locations.content(from.location, key.Shard{}, from.can))
	case route.AgentStatus:
		a.statuses.serve(w, r, from.session())
	case route.Reports:
		a.reports.serve(w, r, from)
	case route.Inspected:
		a.inspector.serveResponse(w, r, from.location)
	case route.ReportsFetch:
		a.reports.serveFetch(w, r, from)
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}
