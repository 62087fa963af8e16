package hub

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// giveBackEvery is how often the hub looks whether it has memory to give back.
	giveBackEvery = 30 * time.Second
	// calmPart is the part of the heap that may be allocated between two looks of a hub that
	// has little to do, and sparePart the part of it that is worth giving back.
	calmPart, sparePart = 16, 8
	// leastSpare is what is worth giving back at least, in bytes.
	leastSpare = 4 << 20
)

// giveBack returns memory to the system while the hub has little to do, until the context
// ends. Go itself keeps as much as the last burst took, up to twice what is in use: to
// collect more often instead would cost every write, also those of a busy hub.
func (h *Hub) giveBack(ctx context.Context) error {
	tick := time.NewTicker(giveBackEvery)
	defer tick.Stop()
	for last := lookAtHeap(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now := lookAtHeap()
		if now.spareAfter(last) {
			debug.FreeOSMemory()
			now = lookAtHeap()
		}
		last = now
	}
}

// heap is what the process has on its heap, in bytes.
type heap struct {
	// allocated is all that ever was; live is what was in use at the last collection.
	allocated, live uint64
	// kept is the memory of objects, including unreachable ones, and free memory of the heap.
	kept uint64
}

func lookAtHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64() + samples[3].Value.Uint64()}
}

// spareAfter reports whether little was allocated since an earlier measurement, and enough memory is free
// that a collection is worthwhile.
func (h heap) spareAfter(before heap) bool {
	idle := h.allocated-before.allocated <= max(h.live/calmPart, leastSpare)
	return idle && h.kept > h.live+max(h.live/sparePart, leastSpare)
}
