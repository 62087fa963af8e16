package agentapi

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// reporting is a log with a location whose reports tests write themselves, in an
// order that they choose.
type reporting struct {
	t     *testing.T
	log   *etcd.Log
	table *table.Writer
	// reports is a writer that runs.
	reports *reportWriter
	guard   etcd.Guard
	key     string
}

func newReporting(t *testing.T) *reporting {
	t.Helper()
	log, err := etcd.Open(t.Context(), etcd.Config{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := &reporting{t: t, log: log, table: table.New(table.Config{WindowSteps: 1000, WindowBytes: 1 << 20}), reports: newReportWriter(log)}
	ctx, cancel := context.WithCancel(context.Background())
	loaded := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		return log.Tail(ctx, r.table, etcd.Hooks{Lost: func(bool) {}, Loaded: sync.OnceFunc(func() { close(loaded) }), Probed: func(error) {}})
	})
	group.Go(func() error { return r.reports.run(ctx) })
	t.Cleanup(func() {
		cancel()
		_ = group.Wait() // the context has ended
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	limit.Closed(t, loaded, "the table is loaded")
	if _, err := log.Write(t.Context(), []etcd.Op{{Key: key.Location("a").Key(), Value: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	r.committed()
	row, _ := r.table.Get(key.Location("a").Key())
	r.guard = etcd.Guard{Key: row.Key, CreateRev: row.CreateRev}
	r.key = reportKey("a")
	return r
}

func reportKey(l key.Location) string {
	object := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: "one"}}
	return key.Report{Location: l, Origin: key.Placed, Object: object}.Key()
}

// committed waits until the table contains all earlier writes.
func (r *reporting) committed() {
	r.t.Helper()
	ctx := limit.Context(r.t, "the table shows what was written")
	rev, err := r.log.Committed(ctx)
	if err == nil {
		err = r.table.WaitFor(ctx, rev)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// changes returns the changes of a request that starts now; an empty report removes the stored one.
func (r *reporting) changes(value string) []etcd.Change {
	r.t.Helper()
	r.committed()
	op := etcd.Op{Key: r.key}
	if value != "" {
		op.Value = []byte(value)
	}
	row, _ := r.table.Get(r.key)
	return []etcd.Change{changeOf(op, row)}
}

// wantStored fails unless the log has this report.
func (r *reporting) wantStored(want string) {
	r.t.Helper()
	r.committed()
	got := ""
	if row, _ := r.table.Get(r.key); row != nil {
		got = string(row.Value)
	}
	if got != want {
		r.t.Errorf("the log has %q, want %q", got, want)
	}
}

// writer is a writer that does not write yet, as that of another hub would be.
func (r *reporting) writer() (w *reportWriter, begin func()) {
	r.t.Helper()
	w = newReportWriter(r.log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	begun := false
	r.t.Cleanup(func() {
		if cancel(); begun {
			<-done
		}
	})
	return w, func() {
		begun = true
		go func() { done <- w.run(ctx) }()
	}
}

// queued puts a batch into a writer's queue, and returns its outcome.
func queued(t *testing.T, ctx context.Context, w *reportWriter, guard etcd.Guard, changes []etcd.Change) <-chan error { //nolint:revive // t is first in helpers
	t.Helper()
	before, result := len(w.queue), make(chan error, 1)
	go func() {
		_, err := w.write(ctx, guard, changes)
		result <- err
	}()
	for deadline := time.Now().Add(limit.Wait); len(w.queue) == before; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the batch is not in the queue")
		}
	}
	return result
}

// TestCancelledReportsAreDropped shows that the reports of a request that has ended are
// not written when their turn comes.
func TestCancelledReportsAreDropped(t *testing.T) {
	r := newReporting(t)
	w, begin := r.writer()
	ctx, cancel := context.WithCancel(t.Context())
	old := queued(t, ctx, w, r.guard, r.changes(`{"state":"Failed"}`))
	cancel()
	if err := limit.Receive(t, old, "the cancelled request ends"); !errors.Is(err, context.Canceled) {
		t.Fatalf("the cancelled request ended with %v", err)
	}
	moved := make(chan error, 1)
	go func() {
		_, err := w.drain(t.Context(), r.guard)
		moved <- err
	}()
	begin()
	if err := limit.Receive(t, moved, "settle returns"); err != nil {
		t.Fatal(err)
	}
	r.wantStored("")
	if _, err := w.write(t.Context(), r.guard, r.changes(`{"state":"Applied"}`)); err != nil {
		t.Fatal(err)
	}
	r.wantStored(`{"state":"Applied"}`)
}

// TestReportsAreWrittenInOrder shows that the last report that an agent sent counts, also
// if it is the one that is in the log when it is sent.
func TestReportsAreWrittenInOrder(t *testing.T) {
	for _, last := range []string{"", `{"state":"Applied"}`} {
		t.Run("last "+last, func(t *testing.T) {
			r := newReporting(t)
			if last != "" {
				if _, err := r.reports.write(t.Context(), r.guard, r.changes(last)); err != nil {
					t.Fatal(err)
				}
			}
			w, begin := r.writer()
			older := queued(t, t.Context(), w, r.guard, r.changes(`{"state":"Failed"}`))
			newer := queued(t, t.Context(), w, r.guard, r.changes(last))
			begin()
			if err := errors.Join(limit.Receive(t, older, "the older batch ends"), limit.Receive(t, newer, "the newer batch ends")); err != nil {
				t.Fatal(err)
			}
			r.wantStored(last)
		})
	}
}

// TestReportsOfTwoHubs shows that a report that waited at one hub, which perhaps has not
// noticed that the agent is gone, does not replace what the agent reported to another
// hub.
func TestReportsOfTwoHubs(t *testing.T) {
	r := newReporting(t)
	w, begin := r.writer()
	stale := queued(t, t.Context(), w, r.guard, r.changes(`{"state":"Failed"}`))
	if _, err := r.reports.write(t.Context(), r.guard, r.changes(`{"state":"Applied"}`)); err != nil {
		t.Fatal(err)
	}
	begin()
	if err := limit.Receive(t, stale, "the stale batch ends"); !apierrors.IsConflict(err) {
		t.Errorf("the stale batch ended with %v", err)
	}
	r.wantStored(`{"state":"Applied"}`)
}

// TestStaleReportsKeepNobodyElseOut shows that only the batch with a stale report fails.
func TestStaleReportsKeepNobodyElseOut(t *testing.T) {
	r := newReporting(t)
	w, begin := r.writer()
	stale := queued(t, t.Context(), w, r.guard, r.changes(`{"state":"Failed"}`))
	var group errgroup.Group
	const others = 120
	for i := range others {
		group.Go(func() error {
			change := etcd.Change{Op: etcd.Op{Key: r.key + strconv.Itoa(i), Value: []byte(`{}`)}}
			_, err := w.write(t.Context(), r.guard, []etcd.Change{change})
			return err
		})
	}
	if _, err := r.reports.write(t.Context(), r.guard, r.changes(`{"state":"Applied"}`)); err != nil {
		t.Fatal(err)
	}
	begin()
	if err := group.Wait(); err != nil {
		t.Errorf("another batch: %v", err)
	}
	if err := limit.Receive(t, stale, "the stale batch ends"); !apierrors.IsConflict(err) {
		t.Errorf("the stale batch ended with %v", err)
	}
}

// TestReportsShareTransactions shows that the reports of many agents of one
// change cost few transactions.
func TestReportsShareTransactions(t *testing.T) {
	r := newReporting(t)
	before, begun := r.table.Rev(), time.Now()
	const agents = 50
	done := make(chan error, agents)
	for i := range agents {
		go func() {
			l := key.Location(strings.Repeat("l", i+1))
			_, err := r.reports.write(t.Context(), r.guard, []etcd.Change{{Op: etcd.Op{Key: reportKey(l), Value: []byte(`{}`)}}})
			done <- err
		}()
	}
	for range agents {
		if err := limit.Receive(t, done, "a report is written"); err != nil {
			t.Fatal(err)
		}
	}
	r.committed()
	if n := r.table.Rev() - before; n > reportsAtOnce+int64(time.Since(begun)/reportLinger) {
		t.Fatalf("%d reports took %d transactions", agents, n)
	}
}

// TestLoneReportsDoNotWait shows that a report that comes alone is taken at once, that
// company is waited for only while reports come fast, and at which pace they then are written.
func TestLoneReportsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReportWriter(nil)
		batch := func() reportBatch { return reportBatch{changes: make([]etcd.Change, 1)} }
		for range 3 {
			begun := time.Now()
			if all := w.collect(t.Context(), batch()); len(all) != 1 || time.Since(begun) > 0 {
				t.Errorf("%d reports after %v, want one at once", len(all), time.Since(begun))
			}
			<-time.After(2 * reportLinger)
		}
		w.collect(t.Context(), batch())
		for i, want := range []time.Duration{shortPause, reportPause} {
			begun := time.Now()
			if w.collect(t.Context(), batch()); time.Since(begun) != want {
				t.Errorf("report %d waited %v for company, want %v", i+2, time.Since(begun), want)
			}
		}
		begun, written := time.Now(), 1
		for time.Since(begun) < 10*time.Second {
			w.collect(t.Context(), batch())
			written++
		}
		if most := reportsAtOnce + int(10*time.Second/reportLinger); written > most {
			t.Errorf("%d transactions in 10 s, want %d at most", written, most)
		}
		for range 2 * fullReports {
			w.queue <- batch()
		}
		begun = time.Now()
		for range 2 {
			if all := w.collect(t.Context(), <-w.queue); len(all) != fullReports || time.Since(begun) > 0 {
				t.Errorf("%d reports after %v, want %d at once", len(all), time.Since(begun), fullReports)
			}
		}
	})
}
