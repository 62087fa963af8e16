package fencing

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// first is how long the first agent of a location that is shared waits at most.
const first = (noticeTimes + 1) * DefaultDuration

// TestOldStoreReturns shows that the store of an agent is outdated once another agent has had its shard, also if
// the Lease was deleted since. The agent is notified of that and takes no Lease. A store with the records of a
// whole location is outdated once any agent of the shard has acted.
func TestOldStoreReturns(t *testing.T) {
	shard := key.NewShard(1, 2)
	for name, c := range map[string]struct {
		returns Config
		deleted bool
		may     bool
	}{
		"the store of an earlier owner":                        {returns: Config{Store: "one"}},
		"that of the last owner":                               {returns: Config{Store: "two"}, may: true},
		"that of the last owner, as it was before":             {returns: Config{Store: "two", Moves: func() uint64 { return 1 }}},
		"that of the last owner, as it was before its end":     {returns: Config{Store: "two", Moves: func() uint64 { return 2 }}},
		"that of the last owner, as it was at its end":         {returns: Config{Store: "two", Moves: func() uint64 { return 3 }}, may: true},
		"that of the last owner, as it was before it knew all": {returns: Config{Store: "two", New: true, Moves: func() uint64 { return 1 }}},
		"a new one":          {returns: Config{Store: "three", New: true}, may: true},
		"one from the whole": {returns: Config{Store: "three", FromWhole: true}},
		"the store of an earlier owner, the Lease deleted":  {returns: Config{Store: "one"}, deleted: true},
		"that of the last owner, the Lease deleted":         {returns: Config{Store: "two"}, deleted: true},
		"one from the whole, where there never was a Lease": {returns: Config{Store: "three", FromWhole: true}, deleted: true, may: true},
		"a new one, the Lease deleted":                      {returns: Config{Store: "three", New: true}, deleted: true, may: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newCluster(1)
				for _, store := range []string{"one", "two"} {
					moves := atomic.Uint64{}
					moves.Store(2)
					a := startBy(t, cluster, Config{Shard: shard, Holder: store, Store: store, New: true, Moves: moves.Load, Outdated: func() { t.Error("a new store is outdated") }})
					<-time.After(first)
					if _, _, err := a.Held(); err != nil {
						t.Fatalf("%s does not act: %v", store, err)
					}
					moves.Store(3) // since it was last renewed
					a.end(true)
				}
				if c.deleted {
					cluster.evict(0)
				}
				before, isNotified := cluster.count, atomic.Bool{}
				c.returns.Shard, c.returns.Holder, c.returns.Outdated = shard, "returns", func() { isNotified.Store(true) }
				a := startBy(t, cluster, c.returns)
				for range int(first / time.Second) {
					<-time.After(time.Second)
					if _, _, err := a.Held(); err == nil && !c.may {
						t.Fatal("it acts")
					}
				}
				if _, _, err := a.Held(); (err == nil) != c.may || isNotified.Load() == c.may {
					t.Errorf("in the end it may act: %v; it was notified that it is outdated: %t", err, isNotified.Load())
				}
				if !c.may && cluster.count != before {
					t.Error("it has written a Lease")
				}
				a.end(true)
			})
		})
	}
}

// TestStopped: an agent that was stopped, or whose machine slept, does not act when it goes on
// before it has looked at its Lease, or for those of others: what was to end its time in the
// meantime has not run. One clock is enough to say so.
func TestStopped(t *testing.T) {
	for _, shard := range []key.Shard{{}, key.NewShard(1, 2)} {
		for name, since := range map[string]func(moment) moment{
			"stopped":                   func(m moment) moment { return m.add(-time.Minute) },
			"asleep":                    func(m moment) moment { return moment{m.steady, m.wall.Add(-time.Minute)} },
			"with a clock that was set": func(m moment) moment { return moment{m.steady.Add(-time.Minute), m.wall.Add(time.Hour)} },
		} {
			w := New(Config{Shard: shard, Log: slog.New(slog.DiscardHandler), Changed: func(string) {}})
			w.Identify("paris.0a1b2c3d")
			w.allow(now().add(30 * time.Second))
			held, _, err := w.Held()
			if err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			w.late.Stop()
			w.until = since(w.until)
			w.mu.Unlock()
			if _, _, err := w.Held(); err == nil || held.Err() == nil {
				t.Errorf("%s, the agent of %s acts: %v", name, shard, held.Err())
			}
		}
	}
}

// TestClockSetForward: an agent that waits until the Lease of another has ended waits for that
// long, whatever its clock says meanwhile: the other does not stop since that was set.
func TestClockSetForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, shard := newCluster(1), key.NewShard(1, 2)
		holder := startActor(t, cluster, "holder", shard)
		<-time.After(first)
		holder.end(false)
		waits := New(Config{Shard: shard, Leases: cluster, Namespace: "orrery-system", Holder: "waits", Log: slog.New(slog.DiscardHandler), Changed: func(string) {}})
		k := newKeeper(waits, "paris.0a1b2c3d")
		if k.round(t.Context()); len(k.seen) != 1 || k.lease != nil {
			t.Fatalf("it has seen %v and holds %v", k.seen, k.lease)
		}
		for path, s := range k.seen {
			s.since.wall = s.since.wall.Add(-time.Hour)
			k.seen[path] = s
		}
		if k.round(t.Context()); k.lease != nil {
			t.Error("it has taken the Lease of one that may still act")
		}
	})
}
