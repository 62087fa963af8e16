package presence

import (
	"context"
	"errors"
	"time"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// roomPatience bounds how long what is written waits for room in the log: what comes after it,
// such as that a session has ended, waits behind it. What got no room is tried again.
const roomPatience = time.Second

// needOf is what a change is for. That a session ends is written always, that it begins for
// longer than anything that is not the end of something. What agents say is growth, as reports are, unless it gets smaller.
func needOf(state table.Reader, c etcd.Change) etcd.Need {
	switch {
	case c.Value == nil:
		return etcd.Ending
	case key.ClassOf(c.Key) == key.Sessions:
		return etcd.Sign
	}
	if row := state.Get(c.Key); row != nil && len(row.Value) >= len(c.Value) {
		return etcd.Upkeep
	}
	return etcd.Growth
}

// admitted is WriteChanges, of changes that can wait equally, if the log has room for them.
func (w *Writer) admitted(ctx context.Context, all []change) (rev int64, stale []string, err error) {
	if need := all[0].need; need != etcd.Ending {
		bytes := 0
		for _, c := range all {
			bytes += len(c.Key) + len(c.Value)
		}
		waiting, cancel := context.WithTimeout(ctx, roomPatience)
		defer cancel()
		landed, err := w.log.Admit(waiting, need, bytes)
		if err != nil {
			return 0, nil, err
		}
		defer landed()
	}
	rev, stale, err = w.log.WriteChanges(ctx, plain(all))
	if errors.Is(err, etcd.ErrFull) {
		w.log.RefusedByEtcd()
	}
	return rev, stale, err
}
