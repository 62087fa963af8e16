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

// Config contains the dependencies of all controllers. Each controller has a config of its own with
// those that it needs.
type Config struct {
	// Table is the source of reads, and Log the target of writes.
	Table *table.Table
	Log   *etcd.Log
	// Kinds encodes objects, and Spaces completes deletions.
	Kinds  *registry.Registry
	Spaces *write.Server
	// Limits are the limits of spaces.
	Limits *quota.Limits
	// The status of Placements and Locations is computed from these.
	Progress *progress.Tracker
	// Digest returns the digest of an object as sent to a location.
	Digest     objectstate.Digest
	Pruned     *prune.Index
	Releases   *helm.Index
	Unreturned *unreturned.Index
	Computed   *computed.Statuses
	// Summaries computes the tables of Summaries. Summed is raised when there is work.
	Summaries *summaries.Index
	Summed    Signal
	// Rules are those of the engine that derives memberships.
	Rules placement.RulesOf
	// Health is that of the same engine.
	Health placement.HealthOf
	// Upsynced counts the reports of objects that no Placement put there.
	Upsynced *upsync.Usage
	// Changed is raised when any of them may have changed.
	Changed Signal
	// Sessions are the agents connected to this hub. Gone returns since when an agent has had no
	// session at any hub, as far as this process knows; zero if it has one.
	Sessions *agentapi.Sessions
	Gone     func(key.Session) time.Time
	// Answers returns since when the log has been available: zero if always, and the current time
	// if it is not. CheckLog waits until the table contains all writes that were acknowledged
	// before the call; it fails if the log is not available.
	Answers  func() time.Time
	CheckLog func(context.Context) error
	// Consumers returns the spaces that have bound an APIExport. BindingTo returns the spaces with
	// APIBindings to any export of a space, in effect or not. ChangedViews collects the
	// APIExportViews whose slices may have changed.
	Consumers    func(provider key.Space, export string) []key.Space
	BindingTo    func(provider key.Space) []key.Space
	ChangedViews *ChangedExportViews
	// ExportViewURL returns the URL of an export view, without the path of a space.
	ExportViewURL func(key.ExportView) string
	// SpaceURL returns the URL of a space.
	SpaceURL func(key.Space) string
	// Settling is how long to wait for more changes before counts are written.
	Settling time.Duration
	// RoomRetry is the interval of retries of writes that failed for lack of room.
	RoomRetry time.Duration
	// Disconnected is how long a location may be without a session before it counts as
	// disconnected.
	Disconnected time.Duration
	// Meter receives the metrics.
	Meter  Meter
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}
