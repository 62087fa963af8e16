package hub

import (
	"context"
	"log/slog"

	"orrery.dev/orrery/internal/mapper/store"
)

// Link is what each part that speaks to the hub needs.
type Link struct {
	Client *Client
	Store  *store.Store
	State  *State
	Log    *slog.Logger
}

// Follower goes by what the hub says.
type Follower interface {
	// Greeted says that a hello is in the store, before any of what follows it is; anew
	// that it is of another log, which was accepted, perhaps of a location that was made
	// again.
	Greeted(anew bool)
	// Opened says that a session has begun or its log has been accepted, or, with known,
	// that what it has desired is known for the first time in it.
	Opened(known bool)
	// Landed says what frames touched, once that is in the store.
	Landed([]store.Touched)
}

// recaller loads the hub's reports of the location into a new store. heard is called
// whenever something arrives.
type recaller func(ctx context.Context, heard func()) error
