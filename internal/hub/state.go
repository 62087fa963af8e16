package hub

import (
	"fmt"

	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/controllers"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/engine/helm"
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
	"orrery.dev/orrery/internal/hub/storage/lineage"
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
	tally    *progress.Tracker
	// rules are followed by the engine and the renderer.
	rules   *rules.Engine
	lineage *lineage.Lineage
	usage   *quota.Usage
	limits  *quota.Limits
	grants  *auth.Grants
	moves   *auth.Moves
	// exports says what is shown to the providers of APIs.
	exports *exports.Engine
	// shelved has the APIExportViews whose status may say something else.
	shelved *controllers.ChangedExportViews
	// pruned adds up the removals that wait, and what owners have confirmed.
	pruned *prune.Index
	// releases has the Helm releases that Placements match in part.
	releases *helm.Index
	// born counts the reports of what was not placed.
	born *upsync.Usage
	// leftOut has the returned statuses that do not fit.
	leftOut *unreturned.Index
	// summing is the language of Summaries, summaries what they count; summed wakes the
	// controller that writes that.
	summing   *aggregate.Language
	summaries *summaries.Index
	summed    controllers.Signal
	// changed wakes the controller that writes counts.
	changed controllers.Signal
	// flow measures what goes through the hub.
	flow *flow
	// watchdog looks after what counts.
	watchdog *watchdog.Watchdog
	// newer has the hubs on the log that know more of kinds than this one.
	newer *presence.Newer
	// present is since when locations have no session.
	present *presence.Index
}

// newState makes an empty table. poke is called for a location whose removals were
// confirmed.
func newState(config *Config, poke func(key.Location)) (*state, error) {
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
	s := &state{
		summing: summing, summed: controllers.NewSignal(),
		rules: ruling, registry: kinds, engine: placement.New(), renderer: render.New(kinds.Builtin(key.Root)), lineage: &lineage.Lineage{},
		usage: quota.NewUsage(), grants: auth.NewGrants(), moves: auth.NewMoves(), pruned: prune.New(poke), releases: helm.New(),
		changed: controllers.NewSignal(), born: upsync.NewUsage(), exports: exports.New(), shelved: controllers.NewChangedExportViews(),
		flow: newFlow(), present: presence.NewIndex(config.Now),
		newer: presence.NewNewer(schemaversion.Version(), config.Logger),
	}
	s.engine.Rules, s.renderer.Follow, s.renderer.Tell = render.RulesOf(ruling), render.Customizing(ruling), render.Tracing(ruling)
	meetings := custom.NewMeetings()
	s.renderer.Fit = func(object []byte, isCRD bool, by *placement.Definition) error {
		return meetings.Fit(object, isCRD, by.Spec, by.Hash)
	}
	s.leftOut = unreturned.New(s.changed.Raise)
	s.watchdog = watchdog.New(config.Logger, countingProgress, countingSummaries)
	s.tally = progress.New(progress.Config{Digest: s.renderer.Digest, Work: s.watchdog.Work(countingProgress)})
	s.summaries = summaries.New(summaries.Config{Digest: s.renderer.Digest, Language: summing, Work: s.watchdog.Work(countingSummaries), Changed: s.summed.Raise, Now: config.Now})
	s.writer = table.New(table.Config{
		Deriver: s.engine, Exposer: s.exports, Observer: observers{s.flow.applied, s.usage, s.tally, s.lineage, s.pruned, s.releases, s.born, s.grants, s.moves, s.summaries, s.shelved, s.present, s.newer, s.changed},
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
