package controllers

import (
	"context"
	"slices"
	"time"

	"orrery.dev/orrery/internal/hub/engine/computed"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// counterConfig contains the dependencies of a counter.
type counterConfig struct {
	Table      *table.Table
	Progress   *progress.Tracker
	Computed   *computed.Statuses
	Unreturned *unreturned.Index
	Pruned     *prune.Index
	Releases   *helm.Index
	// Changed is raised when any of them may have changed.
	Changed Signal
	// Settling is how long to wait for more changes before objects are counted.
	Settling time.Duration
	Now      func() time.Time
}

// counter updates the progress of Placements and locations. It is no controller: each hub runs it.
type counter struct {
	config counterConfig
	// counted are the policies whose counts may have changed.
	counted  *keySet[string]
	resolved *resolutions
}

func newCounter(config counterConfig) *counter {
	return &counter{config, newKeySet[string](), newResolutions()}
}

// run updates the progress until the context ends.
func (c *counter) run(ctx context.Context) error {
	for more := false; ; {
		if more { // what was counted is shown, however much some spaces have to count
			if err := ctx.Err(); err != nil {
				return err
			}
		} else {
			select {
			case <-c.config.Changed.Signal:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := c.awaitSettled(ctx); err != nil {
				return err
			}
		}
		more = countFor(ctx, c.config.Progress, c.config.Settling)
		dirty := c.config.Progress.Dirty()
		c.config.Computed.Update(dirty.Locations)
		keys := c.resolved.forget(c.config.Table.Snapshot(), dirty)
		for _, o := range dirty.Ruling {
			keys = append(keys, o.Key())
		}
		for _, p := range slices.Concat(dirty.Placements, c.config.Unreturned.Dirty(), c.config.Pruned.Dirty(), c.config.Releases.Dirty()) {
			keys = append(keys, p.Object().Key())
		}
		c.counted.add(keys)
	}
}

// countFor counts for some time, and reports whether there is more to count.
func countFor(ctx context.Context, tracker *progress.Tracker, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for tracker.Work(ctx) {
		if ctx.Err() != nil {
			return true
		}
	}
	return false
}

// awaitSettled waits until nothing has changed for a settling time, at most maxSettle settling
// times.
func (c *counter) awaitSettled(ctx context.Context) error {
	const maxSettle = 5
	timer := time.NewTimer(c.config.Settling)
	defer timer.Stop()
	for range maxSettle {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-c.config.Changed.Signal:
			timer.Reset(c.config.Settling)
		default:
			return nil
		}
	}
	return nil
}
