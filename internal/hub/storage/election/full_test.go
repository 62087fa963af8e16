package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"orrery.dev/orrery/internal/hub/storage/election"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// leased is a Member with a constant lease. requests receives the time of each call of Lease.
type leased struct {
	lease    *etcd.Lease
	full     bool
	requests chan time.Time
}

func (leased) ID() string { return "leased" }

func (leased) Newer() (lives bool, changed <-chan struct{}) { return false, nil }

func (m leased) Lease() (lease *etcd.Lease, full bool, changed <-chan struct{}) {
	select {
	case m.requests <- time.Now():
	default:
	}
	return m.lease, m.full, nil
}

// task is the elected task of these tests.
const task = "test"

// runs starts a loop for the task until the test ends, and sends each term to a channel.
func runs(t *testing.T, e *election.Elections) <-chan context.Context {
	t.Helper()
	terms, ended := make(chan context.Context, 10), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = e.Run(ctx, task, func(ctx context.Context) error {
			terms <- ctx
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return terms
}

// next returns the next term.
func next(t *testing.T, terms <-chan context.Context) context.Context {
	t.Helper()
	return limit.Receive(t, terms, "a hub is elected")
}

// TestFullFollows: a hub that gets no lease because the log is full continues when the previous
// leader has ended.
func TestFullFollows(t *testing.T) {
	one := stand(t, etcdtest.Listen(t, nil))
	rev, err := one.log.Write(t.Context(), []etcd.Op{{Key: key.Election("test"), Value: []byte("other")}})
	if err == nil {
		err = one.table.WaitFor(t.Context(), rev)
	}
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan time.Time, 1)
	terms := runs(t, election.New(one.log, one.table, leased{full: true, requests: requests}, slog.New(slog.NewTextHandler(t.Output(), nil))))
	limit.Receive(t, requests, "the lease is read")
	if _, err := one.log.Write(t.Context(), []etcd.Op{{Key: key.Election("test")}}); err != nil {
		t.Fatal(err)
	}
	next(t, terms)
}

// TestElectedUnderAlarm: when etcd refuses all writes and the leader ends, a hub with an earlier
// lease continues, so that space can be freed. Once there is space, one hub is elected.
func TestElectedUnderAlarm(t *testing.T) {
	endpoint := etcdtest.Listen(t, func(c *embed.Config) { c.QuotaBackendBytes = 16 << 20 })
	one, other := stand(t, endpoint), stand(t, endpoint)
	next(t, runs(t, one.Elections))
	terms := runs(t, other.Elections)
	filler := func(i int) string { return key.Marker(fmt.Sprint("filler", i)) }
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		_, err = other.log.Write(t.Context(), []etcd.Op{{Key: filler(n), Value: make([]byte, 1<<20)}})
	}
	if !errors.Is(err, etcd.ErrFull) {
		t.Fatal(err)
	}
	one.stop()
	term := next(t, terms)
	var ends []etcd.Op
	for i := range n {
		ends = append(ends, etcd.Op{Key: filler(i)})
	}
	rev, err := other.log.Write(term, ends)
	if err != nil {
		t.Fatal("what makes room is not written: ", err)
	}
	client := other.log.Client()
	if _, err := client.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	ctx := limit.Context(t, "elect a hub after space was freed")
	elected := func(row *table.Row) bool { return row != nil && string(row.Value) == other.member.ID() }
	for row, _ := other.table.Get(key.Election("test")); !elected(row); row, _ = other.table.Get(key.Election("test")) {
		if _, err := client.Defragment(ctx, endpoint); err != nil {
			t.Fatal(err)
		}
		alarms, err := client.AlarmList(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range alarms.Alarms {
			_, _ = client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("nobody is elected though there is room")
		}
	}
	limit.Closed(t, term.Done(), "the term without an elected hub ends")
	next(t, terms)
}

// TestLaggingTable: a hub whose table does not yet contain another hub's election does not send
// requests to the log without a pause.
func TestLaggingTable(t *testing.T) {
	one := stand(t, etcdtest.Listen(t, nil))
	next(t, runs(t, one.Elections))
	lease, _, _ := one.member.Lease()
	behind := table.New(table.Config{WindowSteps: 1000, WindowBytes: 1 << 20})
	requests := make(chan time.Time)
	runs(t, election.New(one.log, behind.Table, leased{lease: lease, requests: requests}, slog.New(slog.NewTextHandler(t.Output(), nil))))
	first := limit.Receive(t, requests, "the lease is read")
	for range 2 {
		limit.Receive(t, requests, "the lease is read again")
	}
	if took := time.Since(first); took < time.Second {
		t.Errorf("it has asked again within %s", took)
	}
}
