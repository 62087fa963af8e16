package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"

	"orrery.dev/orrery/internal/protocol/key"
)

// promptly is the maximum time between the check of a compaction's basis and the request to compact.
// It is longer than any usable etcd takes to answer.
const promptly = 10 * time.Second

// errHeldUp is returned when this process was suspended between the check and the compaction.
var errHeldUp = errors.New("this hub was held up")

// basis is the information on which a compaction was decided: the revision of the table, and the
// context of this hub's election, or nil if the compaction does not depend on an election.
type basis struct {
	seen    int64
	elected context.Context
}

// compact compacts the history of a log below a revision. No other code compacts. If physical is true, compact
// waits until etcd can reuse the space.
//
// A compaction in etcd has no preconditions. So compact checks right before it that the basis still
// holds: a hub that was suspended may have lost its election, and hubs that joined meanwhile may need
// older revisions. If the hub was suspended even between check and compaction, by either of its
// clocks, compact returns errHeldUp, and the caller tries again later. A compaction that is too late
// all the same causes relists: readers below it get an error.
func compact(ctx context.Context, l *Log, rev int64, physical bool, before func(context.Context, int64) error, decided basis) error {
	if before != nil {
		if err := before(ctx, rev); err != nil {
			return fmt.Errorf("before the compaction of the log at revision %d: %w", rev, err)
		}
	}
	if l.server == nil { // an embedded etcd has no other hub
		checked := time.Now()
		if err := checkBasis(ctx, l.client, decided); err != nil {
			return fmt.Errorf("before the compaction of the log at revision %d: %w", rev, err)
		}
		if isLate(checked, time.Now()) {
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

// checkBasis returns ErrDeposed if this hub is no longer elected, and ErrMoved if another hub has
// joined after the table's revision.
func checkBasis(ctx context.Context, client *kubernetes.Client, decided basis) error { //nolint:contextcheck // an election ends with the hub, too
	if decided.elected != nil {
		ctx = decided.elected
	}
	limited, cancel := context.WithTimeout(Unjoined(ctx, decided.seen, key.Hubs.Prefix()), promptly)
	defer cancel()
	_, err := client.Txn(limited).Then(clientv3.OpGet(Prefix+key.Hubs.Prefix(), clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
	return err
}

// isLate reports whether more than promptly has passed since a time, by the monotonic clock, which
// stops while a machine is suspended, or by the wall clock.
func isLate(since, now time.Time) bool {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0))) > promptly
}
