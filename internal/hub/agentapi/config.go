package agentapi

import (
	"context"
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

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

// unwatched is the Watch of a server without one.
type unwatched struct{}

func (unwatched) Delivered(int64) {}
func (unwatched) Sent(int)        {}
func (unwatched) Ended(string)    {}
