package election_test

import (
	"errors"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// until waits for a condition.
func until(t *testing.T, what string, isHeld func() bool) {
	t.Helper()
	env.Eventually(t, limit.Wait, func() error {
		if !isHeld() {
			return errors.New(what)
		}
		return nil
	})
}

// TestLostTable: a hub that reaches the log but has lost its table resigns, and is a candidate
// again when the table is loaded.
func TestLostTable(t *testing.T) {
	endpoint := etcdtest.Listen(t, nil)
	// The hub resigns after the TTL without a table. An earlier end of the lease changes nothing
	// here.
	one, other := standFor(t, endpoint, 6*time.Second), stand(t, endpoint)
	term := next(t, runs(t, one.Elections))
	terms := runs(t, other.Elections)
	one.broken.Store(true)
	if _, err := other.log.Write(t.Context(), []etcd.Op{{Key: key.Marker("x"), Value: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	next(t, terms)
	limit.Closed(t, term.Done(), "the term of the hub without a table ends")
	until(t, "the hub without a table still counts as running", func() bool {
		_, lives := presence.Hubs(other.table.Snapshot())[one.member.ID()]
		return !lives && one.member.Silent()
	})
	one.broken.Store(false)
	until(t, "it does not come back", func() bool {
		lease, _, _ := one.member.Lease()
		return lease != nil && !one.member.Silent()
	})
}

// TestProgressIsPublished: while the history is to be compacted because of its size, each hub publishes its
// progress after a few revisions, also the leader; and this ends.
func TestProgressIsPublished(t *testing.T) {
	endpoint := etcdtest.Listen(t, nil)
	one, other := stand(t, endpoint), stand(t, endpoint)
	rev := int64(0)
	for range 20 { // more than the share of the quota for history
		var err error
		if rev, err = one.log.Write(t.Context(), []etcd.Op{{Key: key.Marker("x"), Value: make([]byte, 1<<20)}}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "not all hubs publish their progress", func() bool {
		hubs := presence.Hubs(other.table.Snapshot())
		return hubs[one.member.ID()].Seen >= rev-2 && hubs[other.member.ID()].Seen >= rev-2
	})
	const wanted = 3 // checks by each hub after which nothing is written
	var since [2]int64
	until(t, "the hubs continue to publish it", func() bool {
		if now := other.table.Rev(); now != rev {
			rev, since = now, [2]int64{one.checks.Load(), other.checks.Load()}
		}
		return one.checks.Load() >= since[0]+wanted && other.checks.Load() >= since[1]+wanted
	})
}
