package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"orrery.dev/orrery/internal/key"
)

// markEvery is how often it is looked whether there is room for a marker.
const markEvery = time.Second

// errNoMarker says that there was no room for the marker of this beginning.
var errNoMarker = errors.New("the log has no room for it; what is new is not proven to agents until it has")

// mark appends the marker of this beginning. A hub whose log has no room for it begins
// without: the lineage goes by the marker's name all the same, which nobody finds in
// another log, and the marker is appended as soon as there is room.
func (h *Hub) mark(ctx context.Context) (rev int64, err error) {
	name, value, err := h.lineage.begin(rand.Text(), h.config.Now())
	if err != nil {
		return 0, err
	}
	rev, _, err = h.log.Put(ctx, key.Marker(name), value, 0)
	h.unmarked.Store(noRoom(err))
	if noRoom(err) {
		h.config.Logger.Error("begin without a marker", "error", errNoMarker)
		h.log.RefusedByEtcd()
		return h.table.Rev(), nil
	}
	return rev, err
}

// markLoop appends the marker of a beginning for which there was no room, once there is.
func (h *Hub) markLoop(ctx context.Context) error {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !h.unmarked.Load() || h.log.Usage().Alarm {
			continue
		}
		name, value, err := h.lineage.begin(rand.Text(), h.config.Now())
		if err != nil {
			return err
		}
		if _, _, err := h.log.Put(ctx, key.Marker(name), value, 0); err != nil {
			h.log.RefusedByEtcd() // which may be why; else it is looked at in vain
			continue
		}
		h.unmarked.Store(false)
		h.config.Logger.Info("appended the marker of the last beginning")
	}
}
