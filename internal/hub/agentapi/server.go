// Package agentapi is the hub's side of the protocol with agents: sessions that stream
// what is desired at a location, walks that compare it, what agents report, and what they
// answer when somebody asks what is at their cluster.
//
// A location reads and writes only what is its own. It may take over what another, which is
// no more, has left at a cluster: not while that one is there, and only one location does. The
// package must never let a location have the marks of one that exists, since its agent would
// take that one's objects; and never decide what is desired, nor what a report means to anybody.
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
	"orrery.dev/orrery/internal/hub/storage/lineage"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxVersion bounds, in bytes, what is kept of the protocol version that an agent names.
const maxVersion = 1024

// Config is what a Server needs.
type Config struct {
	// Table is read, and Log written to.
	Table *table.Table
	Log   *etcd.Log
	// Lineage says which revisions are of this log.
	Lineage *lineage.Lineage
	// Renderer renders rows for locations.
	Renderer *render.Renderer
	// Born counts the reports of what was not placed.
	Born *upsync.Usage
	// Sessions knows who is connected.
	Sessions *Sessions
	// Confirmations are the removals at a location that were confirmed elsewhere.
	Confirmations func(key.Location) []wire.Confirmation
	// Premises, if set, are the premises of a request's access. Sessions end when one of
	// them no longer holds; its End is not used.
	Premises func(context.Context) []table.Condition
	// Due, if set, says whether the credential that a request was sent with is to be renewed
	// now, and fails if it is good no more; SignedBy, if set, names the authority that has
	// signed it.
	Due      func(context.Context) (bool, error)
	SignedBy func(context.Context) string
	// Shard, if set, is the number of the shard of the agent that has sent a request.
	Shard func(context.Context) int
	// Committed waits until the table shows what was acknowledged to anybody before.
	Committed func(context.Context) error
	// Endpoints are the URLs under which a location's agent is to reach the hub.
	Endpoints func(key.Location) wire.Endpoints
	// Requests is how many requests are worked on at once; Bodies bounds how many of
	// them have large bodies.
	Requests int
	Bodies   fairqueue.Bodies
	// Watch, if not nil, is told what happens in sessions.
	Watch Watch
	// Heartbeat is the interval of pings on a quiet session.
	Heartbeat time.Duration
	// Alone is after which time other hubs are told of an agent that asks without a session; 0:
	// there are no others.
	Alone time.Duration
	// QueueTimeout is how long a request waits for its turn, InspectTimeout how long an agent may
	// take to answer an inspect request. If zero, they have their defaults.
	QueueTimeout, InspectTimeout time.Duration
	Logger                       *slog.Logger
	// Now is the clock of the rates that bound what agents send.
	Now func() time.Time
}

// Watch is told what happens in sessions, by many goroutines; it must not block.
type Watch interface {
	// Delivered says that frames of changes were sent of which the oldest is of a revision.
	Delivered(oldest int64)
	// Sent says how many bytes of frames were sent.
	Sent(bytes int)
	// Ended says that a session has ended, and the reason that the agent was given; empty:
	// it had gone.
	Ended(reason string)
}

// Server serves agents. It is safe for concurrent use. Run must run while it serves.
type Server struct {
	config   Config
	sessions *Sessions
	// turns bounds the requests that are worked on at once. walkers lets each location
	// have one walk request at a time, and walks keeps what walks compare.
	turns   respond.Turns
	walkers *fairqueue.Queue
	walks   *walkIndexes
	// reported bounds what locations report, and reports writes it. seers lets each location
	// have one request at a time that reports what was not placed.
	reported reportLimits
	seers    *fairqueue.Queue
	reports  *reportWriter
	letGo    letGo
	// looks are the questions that agents have yet to answer.
	looks *looks
}

// unwatched is the Watch of a server without one.
type unwatched struct{}

func (unwatched) Delivered(int64) {}
func (unwatched) Sent(int)        {}
func (unwatched) Ended(string)    {}

// New makes a Server.
func New(config Config) *Server {
	if config.Watch == nil {
		config.Watch = unwatched{}
	}
	requests := fairqueue.Defaults(config.Requests)
	requests.Patience, requests.Reserve = cmp.Or(config.QueueTimeout, requests.Patience), 0 // operators send no agents' requests
	patience := cmp.Or(config.QueueTimeout, respond.Timeout)
	return &Server{
		config: config, sessions: config.Sessions,
		turns:   respond.Turns{Queue: fairqueue.NewQueue(requests), Bodies: config.Bodies},
		walkers: fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxWalks, Share: 1, Queue: 1, Patience: patience}),
		walks:   newWalkIndexes(walkBytes), reported: newReportLimits(requests, config.Now), reports: newReportWriter(config.Log),
		seers: fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxWalks, Share: 1, Queue: reportBodies, Patience: patience}),
		looks: newLooks(cmp.Or(config.QueueTimeout, lookPatience)),
	}
}

// Run writes reports to the log until the context ends.
func (a *Server) Run(ctx context.Context) error { return a.reports.run(ctx) }

// Queues are the queues of all requests and of report requests, for metrics.
func (a *Server) Queues() (requests, reports *fairqueue.Queue) {
	return a.turns.Queue, a.reported.turns
}

// Waiting is how many requests with reports wait to be written.
func (a *Server) Waiting() int { return len(a.reports.queue) }

// Refusals is how many requests were refused because their location sends too much per
// second.
func (a *Server) Refusals() int {
	return a.reported.bytes.Refusals() + a.reported.requests.Refusals() + a.reported.statuses.Refusals() + a.reported.sessions.Refusals()
}

// Serve serves a request at the root of a location's agent.
func (a *Server) Serve(w http.ResponseWriter, r *http.Request, root route.Root) {
	_, call := route.Of(r.URL.Path)
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
	of := key.Session{Location: l, Shard: shard}
	defer a.sessions.hear(of)()
	a.asks(of)
	switch {
	case r.Method != http.MethodPost:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	case call == route.Walk || call == route.ReportsWalk:
		a.serveWalkInTurn(w, r, walkOf{walkOwner{l, shard, call == route.ReportsWalk}, abilitiesOf(r)})
	default:
		a.turns.Serve(root, w, r, func(w http.ResponseWriter, r *http.Request) { a.serveCall(w, r, l, shard, call) })
	}
}

// asks notes that an agent is there that asks something besides its session.
func (a *Server) asks(of key.Session) {
	if a.config.Alone > 0 {
		row, _ := a.config.Table.Get(of.Key())
		a.sessions.asksAlone(of, row != nil, a.config.Alone)
	}
}

// numberOf is the number of the shard of the agent that has sent a request.
func (a *Server) numberOf(r *http.Request) int {
	if a.config.Shard == nil {
		return 1
	}
	return a.config.Shard(r.Context())
}

// serveCall serves the calls of an agent besides its session and walks.
func (a *Server) serveCall(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard, call string) {
	switch call {
	case route.Fetch:
		a.serveFetch(w, r, l, shard)
	case route.Lineage:
		a.serveLineage(w, r)
	case route.AgentStatus:
		a.serveAgentStatus(w, r, key.Session{Location: l, Shard: shard})
	case route.Reports:
		a.limitReports(w, r, l, shard)
	case route.Looked:
		a.serveLooked(w, r, l)
	case route.ReportsFetch:
		a.serveReportsFetch(w, r, l, shard)
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}
