// Package controllers is the one owner of what the hub writes by itself: the status of
// Spaces, Locations, Placements, Customizers and Summaries, the end of deletions, the statuses that
// come back from locations.
//
// Each controller says what it watches and what one key needs; it is level-triggered and
// goes by the table, not by what happened. If several hubs share a log, only one of them
// may run the controllers. The package must never serve a request.
package controllers

import (
	"context"
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/agents"
	"orrery.dev/orrery/internal/born"
	"orrery.dev/orrery/internal/judge"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds/registry"
	"orrery.dev/orrery/internal/leftout"
	"orrery.dev/orrery/internal/limits"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/prune"
	"orrery.dev/orrery/internal/release"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/standing"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/summaries"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/tally"
)

// Config is what the controllers need.
type Config struct {
	// Table is read, and Log written to.
	Table *table.Table
	Log   *store.Log
	// Kinds encode what is written, and Spaces ends what is deleted.
	Kinds  *registry.Registry
	Spaces *space.Server
	// Limits are the limits of spaces.
	Limits *limits.Limits
	// The status of Placements and Locations follows from these.
	Tally *tally.Tally
	// Digest is the digest of what locations get.
	Digest   judge.Digest
	Pruned   *prune.Index
	Releases *release.Index
	LeftOut  *leftout.Index
	Standing *standing.Standing
	// Summaries count what Summaries show; Summed is raised when there is something to count.
	Summaries *summaries.Index
	Summed    Signal
	// Rules are those of the engine that derives memberships.
	Rules placement.RulesOf
	// Born counts the reports of what was not placed.
	Born *born.Usage
	// Changed is raised when any of them may have changed.
	Changed Signal
	// Sessions says which agents are connected; Connections collects the locations whose
	// sessions began or ended.
	Sessions    *agents.Sessions
	Connections *Connections
	// Answers is since when the log answers, zero if it always did. Committed waits until
	// the table shows what was acknowledged to anybody before, and fails if it can't.
	Answers   func() time.Time
	Committed func(context.Context) error
	// SpaceURL is where a space is served.
	SpaceURL func(key.Space) string
	// Settle is how long to wait for more changes before counts are written.
	Settle time.Duration
	// RoomRetry is the interval of retries of what users have to make room for.
	RoomRetry time.Duration
	// Disconnected is how long a location may be without a session before it counts as lost.
	Disconnected time.Duration
	Logger       *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Controllers write what the hub has to say. They run in Loops.
type Controllers struct {
	config Config
	// started is when New was called: no location is declared lost before it had time to
	// connect.
	started time.Time
}

// New makes Controllers.
func New(config Config) *Controllers { return &Controllers{config: config, started: config.Now()} }

// Loops are the controllers, each of which runs until its context ends. The caller must
// run one that fails again.
func (c *Controllers) Loops() []func(context.Context) error {
	all := []*controller{
		c.spaces(), c.namespaces(), c.crds(), c.pods(), c.names(),
		c.policies(), c.summarized(), c.locations(), c.returned(), c.removals(), c.tokens(), c.born(),
	}
	loops := make([]func(context.Context) error, 0, len(all))
	for _, one := range all {
		loops = append(loops, one.run)
	}
	return loops
}

// exists says whether a space exists and is not being deleted.
func (c *Controllers) exists(s key.Space) bool { return space.Exists(c.config.Table, s) }
