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
	"log/slog"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxVersion limits the stored bytes of the protocol version that an agent names.
const maxVersion = 1024

// Config configures a Server.
type Config struct {
	// Table is the source of all reads, and Log the target of writes.
	Table *table.Table
	Log   *etcd.Log
	// LogIdentity determines which revisions belong to this hub's log.
	LogIdentity *logidentity.Identity
	// Renderer renders rows for locations.
	Renderer *render.Renderer
	// Upsynced counts the reports about objects that no Placement put at the location.
	Upsynced *upsync.Usage
	// Sessions has the sessions of connected agents.
	Sessions *Sessions
	// Confirmations returns the removals at a location that were confirmed elsewhere.
	Confirmations func(key.Location) []wire.Confirmation
	// StreamConditions, if set, returns the stream conditions of a request's access. A session ends
	// when one of them no longer holds. Their End is not used.
	StreamConditions func(context.Context) []table.Condition
	// Due, if set, reports whether the agent must renew the credential of a request now. It fails if
	// the credential is no longer valid. SignedBy, if set, returns the name of the authority that
	// signed it.
	Due      func(context.Context) (bool, error)
	SignedBy func(context.Context) string
	// Shard, if set, returns the number of the shard of the agent that sent a request.
	Shard func(context.Context) int
	// Committed blocks until the table contains every write that was acknowledged before the call.
	Committed func(context.Context) error
	// Endpoints returns the URLs by which a location's agent can reach the hub.
	Endpoints func(key.Location) wire.Endpoints
	// Requests is the number of concurrent requests; Bodies limits how many of them have large
	// bodies.
	Requests int
	Bodies   fairqueue.Bodies
	// Watch, if not nil, observes sessions.
	Watch Watch
	// Heartbeat is the interval of pings on a quiet session.
	Heartbeat time.Duration
	// Alone is the time after which this hub notifies the others of an agent that sends requests
	// without a session; 0 without other hubs.
	Alone time.Duration
	// QueueTimeout is how long a request waits for its turn, InspectTimeout how long an agent may
	// take to answer an inspect request. If zero, they have their defaults.
	QueueTimeout, InspectTimeout time.Duration
	Logger                       *slog.Logger
	// Now is the clock of the rate limits for agents.
	Now func() time.Time
}

// Watch observes sessions. Its methods are called concurrently and must not block.
type Watch interface {
	// Delivered is called after changes were sent. oldest is the revision of the oldest one.
	Delivered(oldest int64)
	// Sent is called with the number of sent bytes.
	Sent(bytes int)
	// Ended is called at the end of a session, with the reason that was sent to the agent; empty if
	// the agent has disconnected.
	Ended(reason string)
}

// Server serves agents. It is safe for concurrent use. Run must run while it serves.
type Server struct {
	config   Config
	sessions *Sessions
	// requests limits concurrent requests. walkers gives each location one comparison request at a
	// time, and walks has the indexes of comparisons.
	requests respond.Limiter
	walkers  *fairqueue.Queue
	walks    *walkIndexes
	// reported limits reports, and reports writes them. seers gives each location one request at a
	// time that reports objects that no Placement put there.
	reported reportLimits
	seers    *fairqueue.Queue
	reports  *reportWriter
	letGo    letGo
	// inspections are the pending inspect requests.
	inspections *inspections
}

// unwatched is the Watch of a server without one.
type unwatched struct{}

func (unwatched) Delivered(int64) {}
func (unwatched) Sent(int)        {}
func (unwatched) Ended(string)    {}

// New returns a Server.
func New(config Config) *Server {
	if config.Watch == nil {
		config.Watch = unwatched{}
	}
	requests := fairqueue.Defaults(config.Requests)
	requests.Timeout, requests.Reserve = cmp.Or(config.QueueTimeout, requests.Timeout), 0 // operators send no agents' requests
	timeout := cmp.Or(config.QueueTimeout, respond.Timeout)
	return &Server{
		config: config, sessions: config.Sessions,
		requests: respond.Limiter{Queue: fairqueue.NewQueue(requests), Bodies: config.Bodies},
		walkers:  fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxWalks, Share: 1, Queue: 1, Timeout: timeout}),
		walks:    newWalkIndexes(walkBytes), reported: newReportLimits(requests, config.Now), reports: newReportWriter(config.Log),
		seers:       fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxWalks, Share: 1, Queue: reportBodies, Timeout: timeout}),
		inspections: newInspections(cmp.Or(config.QueueTimeout, inspectQueueTimeout)),
	}
}

// Run writes reports to the log until the context ends.
func (a *Server) Run(ctx context.Context) error { return a.reports.run(ctx) }

// Queues returns the queues of all requests and of report requests, for metrics.
func (a *Server) Queues() (requests, reports *fairqueue.Queue) {
	return a.requests.Queue, a.reported.queue
}

// Waiting returns the number of batches of reports that wait to be written.
func (a *Server) Waiting() int { return len(a.reports.queue) }

// Refusals returns the number of requests that were refused by a rate limit of their location.
func (a *Server) Refusals() int {
	return a.reported.bytes.Refusals() + a.reported.requests.Refusals() + a.reported.statuses.Refusals() + a.reported.sessions.Refusals()
}

// Serve serves a request at the root of a location's agent.
func (a *Server) Serve(w http.ResponseWriter, r *http.Request, root route.Root) {
	_, call := route.Parse(r.URL.Path)
	l := key.Location(root.Name)
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	if v := r.Header.Get(wire.Header); v != wire.ProtocolVersion {
		if _, err := a.UID(l); err == nil {
			a.refuses(a.sessionOf(r, l), wire.Clip(cmp.Or(v, "unknown"), maxVersion))
		}
		respond.Error(w, r, respond.BadRequest("header %s is %q: this hub speaks version %s", wire.Header, v, wire.ProtocolVersion))
		return
	}
	if err := a.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	if _, err := a.UID(l); err != nil {
		respond.Error(w, r, err)
		return
	}
	shard, err := a.shardOf(r, l)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	if !shard.Whole() {
		w.Header().Set(wire.ShardHeader, shard.String())
	}
	if call == route.Desired && r.Method == http.MethodGet {
		a.serveDesired(w, r, l, shard)
		return
	}
	id := key.Session{Location: l, Shard: shard}
	defer a.sessions.beginRequest(id)()
	a.recordRequest(id)
	switch {
	case r.Method != http.MethodPost:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	case call == route.Walk || call == route.ReportsWalk:
		a.serveWalkInTurn(w, r, walkOf{walkOwner{l, shard, call == route.ReportsWalk}, abilitiesOf(r)})
	default:
		a.requests.Serve(root, w, r, func(w http.ResponseWriter, r *http.Request) { a.serveCall(w, r, l, shard, call) })
	}
}

// recordRequest notifies other hubs of an agent that sends requests without a session.
func (a *Server) recordRequest(id key.Session) {
	if a.config.Alone > 0 {
		row, _ := a.config.Table.Get(id.Key())
		a.sessions.requestWithoutSession(id, row != nil, a.config.Alone)
	}
}

// numberOf returns the number of the shard of the agent that sent a request.
func (a *Server) numberOf(r *http.Request) int {
	if a.config.Shard == nil {
		return 1
	}
	return a.config.Shard(r.Context())
}

// serveCall serves the calls of an agent other than its session and comparisons.
func (a *Server) serveCall(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard, call string) {
	switch call {
	case route.Fetch:
		a.serveFetch(w, r, l, shard)
	case route.LogIdentity:
		a.serveLogIdentity(w, r)
	case route.Namespaces:
		serveNamespaces(w, r, a.config.Table, a.config.LogIdentity, a.contentOf(l, key.Shard{}, abilitiesOf(r)))
	case route.AgentStatus:
		a.serveAgentStatus(w, r, key.Session{Location: l, Shard: shard})
	case route.Reports:
		a.limitReports(w, r, l, shard)
	case route.Inspected:
		a.serveLooked(w, r, l)
	case route.ReportsFetch:
		a.serveReportsFetch(w, r, l, shard)
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}
