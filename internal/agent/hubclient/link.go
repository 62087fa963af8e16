package hubclient

import (
	"context"
	"log/slog"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Link has the common dependencies of the types that send requests to the hub.
type Link struct {
	Client *Client
	Store  *store.Store
	State  *State
	Log    *slog.Logger
}

// Follower receives the events of a session. Its methods must not block.
type Follower interface {
	// Greeted is called when a hello is in the store, before any later frame is. anew reports
	// whether the hello is from another log that was accepted, perhaps of a location that was
	// removed and added again.
	Greeted(anew bool)
	// Opened is called when a session has begun or its log has been accepted. known is set if
	// the desired objects have become known, for the first time in this session.
	Opened(known bool)
	// Landed is called with the changed entries after frames are stored.
	Landed([]store.Touched)
	// Superseded is called with the fingerprint of a credential that the hub rejects for good,
	// since another agent has joined the location.
	Superseded(credential string)
	// InspectRequested is called with an inspect request of the hub.
	InspectRequested(wire.InspectRequest)
}

// recaller loads the hub's reports of the location into a new store. onData is called
// whenever data arrives.
type recaller func(ctx context.Context, onData func()) error
