package mapper

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"orrery.dev/orrery/internal/wire"
)

// purge sees to it that, when everything is to go by the operator's word, the
// agent knows everything it made: also what neither store nor hub remember. The
// removal itself is like any other: the hub's content is empty.
type purge struct {
	search
	store *store
	log   *slog.Logger

	swept atomic.Bool // since the purge was asked for
}

// asked says whether everything is to go and the hub has said so: its content
// is known to be empty.
func (p *purge) asked() bool {
	m := p.store.meta.Load()
	return m.Settings.Purge && m.Revision > 0 && m.Count == 0 && m.Deferred == 0
}

// run sweeps the target once for each time a purge is asked for, until ctx ends.
func (p *purge) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch {
		case !p.asked():
			p.swept.Store(false)
		case !p.swept.Load():
			if err := p.sweep(ctx); err != nil {
				p.log.Info("what is to be removed cannot be found out now", "error", err)
			} else {
				p.swept.Store(true)
			}
		}
		pause(ctx, announceEvery)
	}
}

// sweep finds all objects at the target that have our label, of whatever kind.
func (p *purge) sweep(ctx context.Context) error {
	all, err := p.target.removable(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := p.kind(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// status is how far the purge has come; nil: none is asked for, or it is not
// known yet what there is.
func (p *purge) status() *wire.PurgeStatus {
	if !p.asked() || !p.swept.Load() {
		return nil
	}
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	s := &wire.PurgeStatus{Kept: p.engine.states[wire.Orphaned]}
	s.Left = len(p.engine.items) - s.Kept
	for id, it := range p.engine.items {
		if it.state == wire.Orphaned {
			s.Objects = append(s.Objects, id)
		}
	}
	slices.Sort(s.Objects)
	s.Objects = s.Objects[:min(maxExamples, len(s.Objects))]
	return s
}
