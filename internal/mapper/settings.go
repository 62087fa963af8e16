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

// trustEvery is how often the agent looks whether a new store can be trusted.
const trustEvery = time.Second

// trust ends the caution of a new store once the desired content is complete, all kinds
// have been listed, and each object that was found is proven to be of the hub's log.
type trust struct {
	store  *store.Store
	engine *engine
	state  *hub.State
	log    *slog.Logger
	landed func([]store.Touched)
}

// run returns when the store is trusted, or ctx ends.
func (c *trust) run(ctx context.Context) {
	for c.store.Meta().Fresh && ctx.Err() == nil {
		if c.store.Meta().ReportsAgreed && c.state.Proves() && c.engine.judged() {
			var all []store.Touched
			err := c.store.Write(ctx, func(t *store.Tx) (err error) {
				all = nil
				if !c.state.Proves() { // any more
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
			c.log.Warn("the store cannot note that the target has been looked through", "error", err)
		}
		retry.Pause(ctx, trustEvery)
	}
}

// judged says that all kinds have been listed, as far as they can be, that no item is
// queued or running, and that none waits for a proof.
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
