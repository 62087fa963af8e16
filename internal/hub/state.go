package hub

import (
	"fmt"

	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/controllers"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/kindrules"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/engine/summaries"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/kinds/schemaversion"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/watchdog"
	"orrery.dev/orrery/internal/protocol/key"
)

// The names of what the watchdog looks after.
const countingProgress, countingSummaries = "counting how far objects are", "counting summaries"

// state is the table, and what is computed of its rows as they change.
type state struct {
	// writer changes the table; only the tail uses it.
	writer   *table.Writer
	table    *table.Table
	registry *registry.Registry
	engine   *placement.Engine
	renderer *render.Renderer
	progress *progress.Tracker
	// rules are followed by the engine and the renderer.
	rules       *rules.Engine
	logIdentity *logidentity.Identity
	usage       *quota.Usage
	limits      *quota.Limits
	grants      *auth.Grants
	moves       *auth.Moves
	// exports computes the objects of export views.
	exports *exports.Engine
	// shelved has the APIExportViews whose status may say something else.
	shelved *controllers.ChangedExportViews
	// pruned adds up the removals that wait, and what owners have confirmed.
	pruned *prune.Index
	// releases has the Helm releases that Placements match in part.
	releases *helm.Index
	// upsynced counts the reports of upsynced and dependent objects.
	upsynced *upsync.Usage
	// unreturned contains the returned statuses that do not fit.
	unreturned *unreturned.Index
	// summing is the language of Summaries, summaries what they count; summed wakes the
	// controller that writes that.
	summing *aggregate.Language
	// kindRules is the language of KindRules.
	kindRules *kindrules.Language
	summaries *summaries.Index
	summed    controllers.Signal
	// changed wakes the controller that writes counts.
	changed controllers.Signal
	// flow measures the requests and frames of the hub.
	flow *flow
	// watchdog looks after what counts.
	watchdog *watchdog.Watchdog
	// newer has the hubs on the log that know more of kinds than this one.
	newer *presence.Newer
	// present is since when locations have no session.
	present *presence.Index
}

// newState returns the state with an empty table. notify is called for a location whose removals were confirmed.
func newState(config *Config, notify func(key.Location)) (*state, error) {
	kinds, err := registry.New()
	if err != nil {
		return nil, fmt.Errorf("compile the built-in kinds: %w", err)
	}
	ruling, err := rules.New()
	if err != nil {
		return nil, err
	}
	summing, err := aggregate.New()
	if err != nil {
		return nil, err
	}
	kindRules, err := kindrules.New()
	if err != nil {
		return nil, err
	}
	s := &state{
		kindRules: kindRules, summing: summing, summed: controllers.NewSignal(),
		rules: ruling, registry: kinds, engine: placement.New(), renderer: render.New(kinds.Builtin(key.Root)), logIdentity: &logidentity.Identity{},
		usage: quota.NewUsage(), grants: auth.NewGrants(), moves: auth.NewMoves(), pruned: prune.New(notify), releases: helm.New(),
		changed: controllers.NewSignal(), upsynced: upsync.NewUsage(), exports: exports.New(), shelved: controllers.NewChangedExportViews(),
		flow: newFlow(), present: presence.NewIndex(config.Now),
		newer: presence.NewNewer(schemaversion.Version(), config.Logger),
	}
	s.engine.Health = kindRules.Health
	s.engine.Rules, s.renderer.Follow, s.renderer.Tell = render.RulesOf(ruling), render.Customizing(ruling), render.Tracing(ruling)
	compatibility := custom.NewCompatibility()
	s.renderer.Fit = func(object []byte, isCRD bool, definition *placement.Definition) error {
		return compatibility.Fit(object, isCRD, definition.Spec, definition.Hash)
	}
	s.unreturned = unreturned.New(s.changed.Raise)
	s.watchdog = watchdog.New(config.Logger, countingProgress, countingSummaries)
	s.progress = progress.New(progress.Config{Digest: s.renderer.Digest, Work: s.watchdog.Work(countingProgress)})
	s.summaries = summaries.New(summaries.Config{Digest: s.renderer.Digest, Language: summing, Work: s.watchdog.Work(countingSummaries), Changed: s.summed.Raise, Now: config.Now})
	s.writer = table.New(table.Config{
		Deriver: s.engine, Exposer: s.exports, Observer: observers{s.flow.applied, s.usage, s.progress, s.logIdentity, s.pruned, s.releases, s.upsynced, s.grants, s.moves, s.summaries, s.shelved, s.registry, s.present, s.newer, s.changed},
		WindowSteps: config.WindowRevisions, WindowBytes: config.WindowBytes,
	})
	s.table = s.writer.Table
	s.limits = quota.New(s.table, s.usage)
	return s, nil
}

// observers shows changes to several observers, in order.
type observers []table.Observer

func (o observers) Reset() {
	for _, one := range o {
		one.Reset()
	}
}

// Prepare implements table.Preparer for those that are one.
func (o observers) Prepare(state table.NextState, changes []table.Change) {
	for _, one := range o {
		if p, ok := one.(table.Preparer); ok {
			p.Prepare(state, changes)
		}
	}
}

func (o observers) Observe(rev int64, changes []table.Change) {
	for _, one := range o {
		one.Observe(rev, changes)
	}
}
