package mapper

import (
	"context"
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/hub"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/mapper/store"
)

const (
	// trustEvery is how often it is looked whether a new store has seen its target.
	trustEvery = time.Second
)

// trust ends the caution of a new store: it has come to a mark, all kinds have been
// listed, and each object that was found has proved to be of the hub's log.
type trust struct {
	store  *store.Store
	engine *engine
	state  *hub.State
	log    *slog.Logger
	landed func([]store.Touched)
}

// run looks for that until it is so, or ctx ends.
func (c *trust) run(ctx context.Context) {
	for c.store.Meta().Fresh && ctx.Err() == nil {
		if c.store.Meta().ReportsAgreed && c.state.Proves() && c.engine.judged() {
			var all []store.Touched
			err := c.store.Write(ctx, func(t *store.Tx) (err error) {
				all = nil
				if !c.state.Proves() { // by now
					return nil
				}
				all, err = t.Trust()
				return err
			})
			if err == nil {
				c.landed(all)
				c.engine.push((*item).stray)
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
		if k.running > 0 || k.version != "" && k.sight == decide.Unseen {
			return false
		}
	}
	return e.queue.count == 0 && e.proofs[marks.Unasked] == 0 && e.proofs[marks.Missing] == 0
}
