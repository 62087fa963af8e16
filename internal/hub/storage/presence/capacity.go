package presence

import (
	"context"
	"errors"
	"time"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// capacityTimeout is how long a write waits for space in the log, since later writes, such as the end
// of a session, wait for it. A write that got no space is tried again.
const capacityTimeout = time.Second

// needOf returns the purpose of a change. The end of a session is always written. Its beginning is
// written longer than anything except deletions. A larger status of an agent counts as growth, like
// a report.
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

// admitted is WriteChanges for equally urgent changes, if the log has space for them.
func (w *Writer) admitted(ctx context.Context, all []change) (rev int64, stale []string, err error) {
	if need := all[0].need; need != etcd.Ending {
		bytes := 0
		for _, c := range all {
			bytes += len(c.Key) + len(c.Value)
		}
		waiting, cancel := context.WithTimeout(ctx, capacityTimeout)
		defer cancel()
		landed, err := w.log.Capacity().Admit(waiting, need, bytes)
		if err != nil {
			return 0, nil, err
		}
		defer landed()
	}
	rev, stale, err = w.log.WriteChanges(ctx, plain(all))
	if errors.Is(err, etcd.ErrFull) {
		w.log.Capacity().RefusedByEtcd()
	}
	return rev, stale, err
}
