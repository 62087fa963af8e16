// Package controllers is the one owner of what the hub writes by itself: the status of
// Spaces, Locations, policies, Summaries, APIExports and their views, the end of deletions,
// the statuses that come back from locations.
//
// Each controller says what it watches and what one key needs; it is level-triggered and
// goes by the table, not by what happened. Of several hubs that share a log one is elected to
// run each. The package must never serve a request.
package controllers

import (
	"context"
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/engine/computed"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/summaries"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Config is what the controllers need.
type Config struct {
	// Table is read, and Log written to.
	Table *table.Table
	Log   *etcd.Log
	// Kinds encode what is written, and Spaces ends what is deleted.
	Kinds  *registry.Registry
	Spaces *write.Server
	// Limits are the limits of spaces.
	Limits *quota.Limits
	// The status of Placements and Locations follows from these.
	Tally *progress.Tracker
	// Digest is the digest of what locations get.
	Digest   objectstate.Digest
	Pruned   *prune.Index
	Releases *helm.Index
	LeftOut  *unreturned.Index
	Standing *computed.Statuses
	// Summaries count what Summaries show; Summed is raised when there is something to count.
	Summaries *summaries.Index
	Summed    Signal
	// Rules are those of the engine that derives memberships.
	Rules placement.RulesOf
	// Born counts the reports of what was not placed.
	Born *upsync.Usage
	// Changed is raised when any of them may have changed.
	Changed Signal
	// Sessions has the agents that are connected to this hub; Gone is since when one of them
	// has no session at any hub, as far as this process has seen, zero if it has not.
	Sessions *agentapi.Sessions
	Gone     func(key.Session) time.Time
	// Answers is since when the log answers, zero if it always did, and now if it does not. Asked
	// asks it, waits until the table shows what was acknowledged to anybody before, and fails if
	// it can't.
	Answers func() time.Time
	Asked   func(context.Context) error
	// Consumers are the spaces that have bound an APIExport, BindingTo those that have
	// APIBindings to any of a space, in force or not, and Shelved the APIExportViews whose
	// slices may have changed.
	Consumers func(provider key.Space, export string) []key.Space
	BindingTo func(provider key.Space) []key.Space
	Shelved   *Shelves
	// ShelfURL is where a shelf is served, without the spaces below it.
	ShelfURL func(key.Shelf) string
	// SpaceURL is where a space is served.
	SpaceURL func(key.Space) string
	// Settle is how long to wait for more changes before counts are written.
	Settle time.Duration
	// RoomRetry is the interval of retries of what users have to make room for.
	RoomRetry time.Duration
	// Disconnected is how long a location may be without a session before it counts as lost.
	Disconnected time.Duration
	// Meter is told what waits, and what fails.
	Meter  Meter
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Meter is told what waits for controllers, by their names, and what fails, by many
// goroutines. It must not block.
type Meter interface {
	// Queued says how much waits for a controller now.
	Queued(controller string, length int)
	// Failed says that a controller has failed, and will try again.
	Failed(controller string)
}

// Controllers write what the hub has to say. They run in Loops.
type Controllers struct {
	config Config
	// started is when New was called: no location is declared lost before it had time to
	// connect.
	started time.Time
	// counts are those that the controller of policies has not taken yet, which says by
	// countsTaken that it has some.
	counts      *counts
	countsTaken bool
	resolved    *resolutions
	// summed says that the controller of Summaries has run before.
	summed bool
}

// New makes Controllers.
func New(config Config) *Controllers {
	return &Controllers{config: config, started: config.Now(), counts: newCounts(), resolved: newResolutions()}
}

// Loop is a controller, which runs until its context ends. The caller must run one that fails
// again, and no two of a name at the same time, at whichever hubs.
type Loop struct {
	Name string
	Run  func(context.Context) error
}

// Loops are the controllers.
func (c *Controllers) Loops() []Loop {
	all := []*controller{
		c.spaces(), c.namespaces(), c.crds(), c.bindings(), c.pods(), c.names(),
		c.policies(), c.summarized(), c.exported(), c.sliced(), c.locations(), c.returned(), c.removals(), c.tokens(), c.born(),
	}
	loops := make([]Loop, 0, len(all))
	for _, one := range all {
		loops = append(loops, Loop{one.name, one.run})
	}
	return loops
}

// exists says whether a space exists and is not being deleted.
func (c *Controllers) exists(s key.Space) bool { return write.Exists(c.config.Table, s) }
