package read

import (
	"context"
	"errors"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Config configures a Server.
type Config struct {
	// Table is the source of all reads and watches.
	Table *table.Table
	// Renderer renders rows for locations.
	Renderer *render.Renderer
	// Committed blocks until the table contains every write that was acknowledged before the
	// call. It fails if that can't be determined.
	Committed func(context.Context) error
	// Defines, if set, reports whether a space still defines a kind in the same way. If it does
	// not, watches of the kind end. DefinedBy, set with it, returns the keys of the objects that
	// define the kind.
	Defines   func(key.Space, *kinds.Kind) bool
	DefinedBy func(key.Space, *kinds.Kind) []string
	// StreamConditions, if set, returns the stream conditions of a request's access. A watch
	// ends when one of them no longer holds. Their End is not used.
	StreamConditions func(context.Context) []table.Condition
	// Complete, if set, returns the bytes of a row that clients read instead of the stored
	// ones, or nil. It adds fields that are computed on each read; their changes cause no events.
	Complete func(*table.Row) []byte
	// Counts, if set, counts the states of a row's object at its locations, for each row of a
	// table of a space. Changes of the counts cause no events. It fails if the counts are unknown
	// when the context ends.
	Counts func(context.Context, *table.Row) (v1alpha1.Counts, error)
	// WatchTimeout is the minimum duration of a watch that does not request a timeout; the
	// maximum is twice that.
	WatchTimeout time.Duration
	// BookmarkEvery is the interval of bookmarks for watches that allow them.
	BookmarkEvery time.Duration
	// FutureWait is how long a read waits for a revision that the client names and the table
	// has not reached. After that, the read asks the log, and fails with 504 if the revision
	// does not exist.
	FutureWait time.Duration
	// PageKeep is how long the state of a list is kept for its next page, and
	// PageStates how many such states are kept at most.
	PageKeep   time.Duration
	PageStates int
	// DecodedListBytes limits the stored bytes of the objects of a list that have to be decoded.
	DecodedListBytes int
}

// DefaultConfig returns the timeouts and limits of a hub. The caller sets Table, Renderer and
// Committed.
func DefaultConfig() Config {
	return Config{
		WatchTimeout:     30 * time.Minute,
		BookmarkEvery:    time.Minute,
		FutureWait:       3 * time.Second,
		PageKeep:         2 * time.Minute,
		PageStates:       64,
		DecodedListBytes: 64 << 20,
	}
}

// Validate checks that the required fields are set and that limits are positive.
func (c Config) Validate() error {
	if c.Table == nil || c.Renderer == nil || c.Committed == nil {
		return errors.New("read config: Table, Renderer and Committed are required")
	}
	for _, d := range []time.Duration{c.WatchTimeout, c.BookmarkEvery, c.FutureWait, c.PageKeep} {
		if d <= 0 {
			return errors.New("read config: times must be positive")
		}
	}
	if c.PageStates <= 0 || c.DecodedListBytes <= 0 {
		return errors.New("read config: sizes must be positive")
	}
	return nil
}
