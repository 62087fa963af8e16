package mapper

import (
	"context"
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/wire"
)

const (
	// prunePercent is the bound of removals as long as nothing was heard that is believed.
	prunePercent = 30
	// trustEvery is how often it is looked whether a new store has seen its target.
	trustEvery = time.Second
)

// hear takes over what the hub says of the location. What loosens a protection waits
// as long as the hub's log is not proven, and in a new store until all that was found
// at the target is: the log may be an older copy, from before the protection.
func (m *meta) hear(s wire.Settings, proven bool) {
	m.Heard = nil
	if proven && !m.Fresh {
		m.Settings = s
		return
	}
	bounded := s
	bounded.Purge = s.Purge && m.Settings.Purge
	bounded.PruneMaxPercent = min(s.PruneMaxPercent, m.Settings.PruneMaxPercent)
	bounded.Confirm = nil
	if s.Halt == "" && !proven {
		bounded.Halt = m.Settings.Halt
	}
	if !bounded.Equal(s) {
		m.Heard = &s
	}
	m.Settings = bounded
}

// halt is why the agent is to change nothing; empty: it works.
func (m *meta) halt() string {
	if m.Heard != nil && m.Heard.Halt == "" && m.Settings.Halt != "" {
		return m.Settings.Halt + "; the hub does not say so any more, which waits until its log is accepted"
	}
	return m.Settings.Halt
}

// trust ends the caution of a new store: it has come to a mark, all kinds have been
// listed, and each object that was found has proved to be of the hub's log.
type trust struct {
	store  *store
	engine *engine
	state  *progress
	log    *slog.Logger
	landed func([]touched)
}

// run looks for that until it is so, or ctx ends.
func (c *trust) run(ctx context.Context) {
	for c.store.meta.Load().Fresh && ctx.Err() == nil {
		if c.store.meta.Load().ReportsAgreed && c.state.proves() && c.engine.judged() {
			var all []touched
			err := c.store.write(ctx, func(t *tx) (err error) {
				all = nil
				if !c.state.proves() { // by now
					return nil
				}
				t.meta.Fresh = false
				if t.meta.Heard != nil {
					t.meta.hear(*t.meta.Heard, true)
				}
				all, err = t.confirm()
				return err
			})
			if err == nil {
				c.landed(all)
				c.engine.pushStrays()
				continue
			}
			c.log.Warn("what was found at the target cannot be taken note of", "error", err)
		}
		retry.Pause(ctx, trustEvery)
	}
}

// judged says that all that concerns the agent has been seen, as far as it can be,
// had its turn, and waits for no proof.
func (e *engine) judged() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range e.kinds {
		if k.running > 0 || k.version != "" && k.sight == unseen {
			return false
		}
	}
	return e.queue.count == 0 && e.proofs[proofUnasked] == 0 && e.proofs[proofMissing] == 0
}
