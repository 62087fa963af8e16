package agent

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/agent/fencing"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
)

// releaseTimeout bounds the release of the agent's Lease at its stop.
const releaseTimeout = 3 * time.Second

// keepFence runs the fence until ctx ends. After another agent of the shard has superseded this one,
// which the end of fenced or the store reports, it releases the Lease, for which the other agent
// waits, and acquires none.
func keepFence(ctx, fenced context.Context, shard key.Shard, fence *fencing.Fence, st *store.Store, release func(context.Context)) {
	if shard.Whole() {
		fence.Run(ctx)
		return
	}
	for st.Meta().Superseded != "" && fenced.Err() == nil {
		retry.Pause(fenced, time.Second)
	}
	fence.Run(fenced)
	if ctx.Err() == nil {
		release(ctx)
	}
}
