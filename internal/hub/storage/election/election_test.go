package election_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/storage/election"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// candidate is a hub that takes part in elections.
type candidate struct {
	log    *etcd.Log
	table  *table.Table
	member *presence.Member
	*election.Elections
	// broken makes its table lost while it is set.
	broken *atomic.Bool
	// looks counts how often the hub has checked whether to publish its progress.
	checks *atomic.Int64
	// stop ends the hub like a normal stop.
	stop func()
}

// losing is a table that is lost while broken is set.
type losing struct {
	*table.Writer
	broken *atomic.Bool
}

func (l losing) Apply(rev int64, updates []table.Update) error {
	if l.broken.Load() {
		return errors.New("the table is lost")
	}
	return l.Writer.Apply(rev, updates)
}

// stand returns a candidate whose lease ends only when the candidate stops or the test revokes it.
func stand(t *testing.T, endpoint string) *candidate {
	t.Helper()
	return standFor(t, endpoint, limit.Never)
}

// standFor returns a candidate whose lease has a TTL.
func standFor(t *testing.T, endpoint string, ttl time.Duration) *candidate {
	t.Helper()
	log, err := etcd.Open(t.Context(), etcd.Config{Servers: []string{endpoint}, Quota: 64 << 20, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	broken, checks := new(atomic.Bool), new(atomic.Int64)
	writer := table.New(table.Config{WindowSteps: 1000, WindowBytes: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	loaded, tailed, ran := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(tailed)
		_ = log.Tail(ctx, losing{writer, broken}, etcd.Hooks{Lost: func(bool) {}, Loaded: func() {
			log.Continuity().Resume(log.Continuity().Losses())
			select {
			case loaded <- struct{}{}:
			default:
			}
		}, Probed: func(error) {}})
	}()
	limit.Receive(t, loaded, "the table is loaded")
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	needs := func() int64 { checks.Add(1); return 0 }
	c := &candidate{log: log, table: writer.Table, broken: broken, checks: checks, member: presence.NewMember(presence.Config{
		Log: log, Table: writer.Table, Needs: needs, Alone: func() bool { return true }, TTL: ttl, Logger: logger,
	})}
	c.Elections = election.New(log, writer.Table, c.member, logger)
	go func() {
		defer close(ran)
		_ = c.member.Run(ctx)
	}()
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		lease, _, _ := c.member.Lease()
		cancel()
		limit.Closed(t, ran, "the member has stopped")
		limit.Closed(t, tailed, "the tail of the log has stopped")
		// The member gives up revoking its lease when etcd is slow.
		if lease != nil && t.Context().Err() == nil {
			if err := lease.Revoke(limit.Context(t, "revoke the lease of a stopped hub")); err != nil {
				t.Error(err)
			}
		}
		_ = log.Close() // the context of the client has ended
	}
	t.Cleanup(c.stop)
	return c
}

// term is a term of a candidate. It is the only timely sign of an election: a former leader may
// still count itself as elected when the next term begins.
type term struct {
	ctx       context.Context
	candidate *candidate
}

// TestDeposed: a former leader writes nothing, whether or not it knows that its term ended. At any
// time there is only one leader, and another follows at once when it stops.
func TestDeposed(t *testing.T) {
	endpoint := etcdtest.Listen(t, nil)
	one, other := stand(t, endpoint), stand(t, endpoint)
	terms := make(chan term, 10)
	loop := func(c *candidate) func(context.Context) error {
		return func(ctx context.Context) error {
			terms <- term{ctx, c}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	elected := func() term { return limit.Receive(t, terms, "a hub is elected") }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	defer func() { cancel(); <-ended; <-ended }()
	go func() { ended <- one.Run(ctx, "test", loop(one)) }()
	first := elected().ctx
	go func() { ended <- other.Run(ctx, "test", loop(other)) }()
	put := func(c *candidate, term context.Context) error {
		_, err := c.log.Client().Put(context.WithoutCancel(term), etcd.Prefix+"o/x", "{}")
		return err
	}
	if err := put(one, first); err != nil {
		t.Fatal(err)
	}
	if len(terms) > 0 || other.Held("test") {
		t.Fatal("both are elected")
	}
	// etcd removes the key, as when the lease ends.
	if _, err := one.log.Write(ctx, []etcd.Op{{Key: key.Election("test")}}); err != nil {
		t.Fatal(err)
	}
	if err := put(one, first); !errors.Is(err, etcd.ErrDeposed) {
		t.Errorf("what is deposed writes: %v", err)
	}
	batch := []etcd.Op{{Key: "o/y", Value: []byte(`{}`)}}
	if _, _, err := one.log.Put(context.WithoutCancel(first), "o/z", []byte(`{}`), 0); !errors.Is(err, etcd.ErrDeposed) {
		t.Errorf("what is deposed writes: %v", err)
	}
	if _, err := one.log.Write(context.WithoutCancel(first), batch); !errors.Is(err, etcd.ErrDeposed) {
		t.Errorf("what is deposed writes: %v", err)
	}
	if _, err := one.log.Client().KV.Delete(context.WithoutCancel(first), etcd.Prefix+"o/x"); !errors.Is(err, etcd.ErrDeposed) {
		t.Errorf("what is deposed deletes: %v", err)
	}
	limit.Closed(t, first.Done(), "the term of the deposed hub ends")
	second := elected()
	if err := put(second.candidate, second.ctx); err != nil {
		t.Error(err)
	}
	second.candidate.stop()
	third := elected()
	if third.candidate == second.candidate {
		t.Fatal("a stopped hub is elected")
	}
	if err := put(third.candidate, third.ctx); err != nil {
		t.Error(err)
	}
}
