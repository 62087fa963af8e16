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

// trustEvery is how often the agent looks whether a new store can be trusted.
const trustEvery = time.Second

// trust ends the caution of a new store once the desired content is complete, all kinds
// have been listed, and each object that was found is proven to be of the hub's log.
type trust struct {
	store  *store.Store
	engine *worklist.Worklist
	state  *hubclient.State
	log    *slog.Logger
	landed func([]store.Touched)
}

// run returns when the store is trusted, or ctx ends.
func (c *trust) run(ctx context.Context) {
	for c.store.Meta().Fresh && ctx.Err() == nil {
		if c.store.Meta().ReportsAgreed && c.state.Proves() && c.engine.Count().Judged() {
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
				c.engine.Push((*worklist.Item).Stray)
				continue
			}
			c.log.Warn("the store cannot note that the target has been looked through", "error", err)
		}
		retry.Pause(ctx, trustEvery)
	}
}
