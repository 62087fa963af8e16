package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/protocol/key"
)

// promptly is how old what was found out before a compaction may be when that is asked for. It is
// longer than an etcd takes to answer with which a hub gets on at all.
const promptly = 10 * time.Second

// errHeldUp says that this process was held up between that it looked and that it acted.
var errHeldUp = errors.New("this hub was held up")

// view is what a compaction was decided by: a revision of the table, and the context of an
// election, nil if it is not by one.
type view struct {
	seen    int64
	elected context.Context
}

// compact compacts history below a revision; it is the one place where that is done.
// physical waits until etcd can use the space again.
//
// etcd compacts without conditions. So right before, it is asked whether what this was decided
// by still holds: a hub that stood still may have been deposed, and others may have come, who
// need more. If this hub is held up even between that and the compaction, by either of its
// clocks, it asks again another time. What is compacted too late all the same costs relists: who
// reads below it is told so.
func (l *Log) compact(ctx context.Context, rev int64, physical bool, before func(context.Context, int64) error, by view) error {
	if before != nil {
		if err := before(ctx, rev); err != nil {
			return fmt.Errorf("before the compaction of the log at revision %d: %w", rev, err)
		}
	}
	if l.server == nil { // else there is no other hub
		asked := time.Now()
		if err := l.holds(ctx, by); err != nil {
			return fmt.Errorf("before the compaction of the log at revision %d: %w", rev, err)
		}
		if late(asked, time.Now()) {
			return errHeldUp
		}
	}
	var options []clientv3.CompactOption
	if physical {
		options = append(options, clientv3.WithCompactPhysical())
	}
	if _, err := l.client.Compact(ctx, rev, options...); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact the log at revision %d: %w", rev, err)
	}
	return nil
}

// holds fails with ErrDeposed or ErrMoved if this hub is no longer elected, or others have come
// since the table had a revision.
func (l *Log) holds(ctx context.Context, by view) error { //nolint:contextcheck // an election ends with the hub, too
	if by.elected != nil {
		ctx = by.elected
	}
	asking, cancel := context.WithTimeout(Unjoined(ctx, by.seen, key.Hubs.Prefix()), promptly)
	defer cancel()
	_, err := l.client.Txn(asking).Then(clientv3.OpGet(Prefix+key.Hubs.Prefix(), clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
	return err
}

// late says whether too much time has passed, by the clock that stops with a machine, or by the
// one that can be set.
func late(asked, now time.Time) bool {
	return max(now.Sub(asked), now.Round(0).Sub(asked.Round(0))) > promptly
}
