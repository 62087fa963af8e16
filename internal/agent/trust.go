package agent

import (
	"context"
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
)

// trustEvery is the interval at which the agent checks whether a new store can be trusted.
const trustEvery = time.Second

// trust marks a new store as trusted once the desired objects are complete, all kinds have been
// listed, and the hub's log is proven to contain the log position of each object found.
type trust struct {
	store  *store.Store
	engine *worklist.Worklist
	state  *hubclient.State
	log    *slog.Logger
	landed func([]store.Touched)
}

// run returns when the store is trusted, or when ctx ends.
func (c *trust) run(ctx context.Context) {
	for c.store.Meta().Fresh && ctx.Err() == nil {
		if c.store.Meta().ReportsAgreed && c.state.Proves() && c.engine.Count().IsComplete() {
			var all []store.Touched
			err := c.store.Write(ctx, func(t *store.Tx) (err error) {
				all = nil
				if !c.state.Proves() { // the session may have ended meanwhile
					return nil
				}
				all, err = t.Trust()
				return err
			})
			if err == nil {
				c.landed(all)
				c.engine.Push((*worklist.Item).Stray)
				continue
			}
			c.log.Warn("the store could not be marked as trusted", "error", err)
		}
		retry.Pause(ctx, trustEvery)
	}
}
