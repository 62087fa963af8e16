package agent

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/agent/fencing"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
)

// releaseTimeout bounds how long the agent tries to let go of its Lease when it stops.
const releaseTimeout = 3 * time.Second

// keepFence keeps what lets an agent act until ctx ends. If another agent of the shard has superseded
// it, as fenced or the store reports, it lets go of its Lease, which the other waits for, and takes
// none.
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
