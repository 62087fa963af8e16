package hubclient

import (
	"context"
	"log/slog"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Link is what each part that speaks to the hub needs.
type Link struct {
	Client *Client
	Store  *store.Store
	State  *State
	Log    *slog.Logger
}

// Follower is told what happens in a session. Its methods must not block.
type Follower interface {
	// Greeted says that a hello is in the store, and nothing that follows it yet; anew,
	// that it is of another log, which was accepted, and perhaps of a location that was
	// removed and added again.
	Greeted(anew bool)
	// Opened says that a session has begun or its log has been accepted; with known, that
	// the desired content is known, for the first time in this session.
	Opened(known bool)
	// Landed says which entries frames have touched, once that is in the store.
	Landed([]store.Touched)
	// Superseded is called with the fingerprint of a credential that the hub has refused for
	// good, since another agent has joined the location.
	Superseded(credential string)
	// Asked says what the hub asks about the target.
	Asked(wire.Look)
}

// recaller loads the hub's reports of the location into a new store. heard is called
// whenever something arrives.
type recaller func(ctx context.Context, heard func()) error
