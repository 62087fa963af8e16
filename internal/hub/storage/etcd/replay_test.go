package etcd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/test/support/limit"
)

// recorder is an Applier that records updates in order.
type recorder struct {
	mu    sync.Mutex
	since int64
	rev   int64
	seen  []string
	// reached receives when there is a new revision.
	reached chan struct{}
}

func (to *recorder) Reset(rev int64, _ []table.Update) {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.since, to.rev, to.seen = rev, rev, nil
}

func (to *recorder) Apply(rev int64, updates []table.Update) error {
	to.mu.Lock()
	defer to.mu.Unlock()
	if rev <= to.rev {
		return fmt.Errorf("revision %d after %d", rev, to.rev)
	}
	to.rev = rev
	for _, u := range updates {
		to.seen = append(to.seen, fmt.Sprintf("%d %s %s", rev, u.Key, u.Value))
	}
	select {
	case to.reached <- struct{}{}:
	default:
	}
	return nil
}

func (to *recorder) Progress(int64) {}

func (to *recorder) Rev() int64 {
	to.mu.Lock()
	defer to.mu.Unlock()
	return to.rev
}

// broken ends the watches of every interval-th chunk of a replay, after one response or at once. It
// selects by the chunk, because chunks are watched concurrently. It does not end the tail's own watch,
// because the tail would reload.
type broken struct {
	clientv3.Watcher
	interval int64
}

func (b broken) Watch(ctx context.Context, k string, opts ...clientv3.OpOption) clientv3.WatchChan {
	md, _ := metadata.FromOutgoingContext(ctx)
	chunk := md.Get("chunk")
	if b.interval == 0 || len(chunk) == 0 {
		return b.Watcher.Watch(ctx, k, opts...)
	}
	from, err := strconv.ParseInt(chunk[0], 10, 64)
	if err != nil {
		panic(err)
	}
	if n := from / atOnce; n%b.interval != 0 {
		return b.Watcher.Watch(ctx, k, opts...)
	} else if n/b.interval%2 == 0 {
		ended := make(chan clientv3.WatchResponse)
		close(ended)
		return ended
	}
	ended := make(chan clientv3.WatchResponse, 1)
	ended <- <-b.Watcher.Watch(ctx, k, opts...)
	close(ended)
	return ended
}

// TestReplay shows that a tail applies a long history as a single watch delivers it, revision by
// revision, including concurrent writes, even if watches of chunks end early.
func TestReplay(t *testing.T) {
	l := open(t, t.TempDir())
	write := func(i int) {
		var ops []Op
		for j := range 1 + i%3 {
			ops = append(ops, Op{Key: fmt.Sprintf("r/x/s/placed/core/configmaps/default/%d", (i+j)%50), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
		}
		if i%7 == 0 {
			ops[0].Value = nil
		}
		if _, err := l.Write(t.Context(), ops); err != nil {
			t.Error(err)
		}
	}
	const revisions = 5*atOnce + 17
	for i := range revisions {
		write(i)
	}
	watcher := l.client.Watcher
	for _, interval := range []int64{0, 5, 2} {
		l.client.Watcher = broken{Watcher: watcher, interval: interval}
		to := &recorder{reached: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		lost := func(bool) {
			t.Errorf("the watch of each %dth chunk ends, and the tail lost its log at revision %d", interval, to.Rev())
		}
		group.Go(func() { _ = l.Tail(ctx, to, Hooks{Lost: lost, Loaded: func() {}, Probed: func(error) {}}) })
		for i := range 100 {
			write(i)
		}
		now, err := l.revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for late := time.After(limit.Wait); to.Rev() < now; {
			select {
			case <-to.reached:
			case <-late:
				t.Fatalf("revision %d is not reached, but %d", now, to.Rev())
			}
		}
		cancel()
		group.Wait()
		if want := l.eventsSince(t, watcher, to.since, now); len(want) < revisions || !slices.Equal(to.seen, want) {
			t.Errorf("the watch of each %dth chunk ends: %d updates, want %d", interval, len(to.seen), len(want))
		}
	}
}

// eventsSince returns the events that a single watch delivers after a revision and up to another.
func (l *Log) eventsSince(t *testing.T, watcher clientv3.Watcher, rev, now int64) (events []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for r := range watcher.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
		for _, e := range r.Events {
			events = append(events, fmt.Sprintf("%d %s %s", e.Kv.ModRevision, below(e.Kv.Key), e.Kv.Value))
		}
		if n := len(r.Events); r.Err() != nil || n > 0 && r.Events[n-1].Kv.ModRevision >= now {
			break
		}
	}
	return events
}

// TestReplayEnds shows that a replay whose chunks never receive their last revision ends with its
// context, and that new watches work after it.
func TestReplayEnds(t *testing.T) {
	l := open(t, t.TempDir())
	if _, err := l.Write(t.Context(), []Op{{Key: "o/p/a", Value: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	now, err := l.revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := clientv3.WithRequireLeader(t.Context())
	for range 10 {
		late := time.After(limit.Wait)
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		over := make(chan error, 1)
		go func() { over <- (&tailer{log: l, to: &recorder{rev: now}}).replay(short, now+maxChunks*atOnce) }()
		select {
		case <-over:
			cancel()
		case <-late:
			t.Fatal("the replay does not end")
		}
		watching, stop := context.WithCancel(ctx)
		responses := make(chan clientv3.WatchResponse, 1)
		go func() { responses <- <-l.client.Watch(watching, Prefix, clientv3.WithPrefix(), clientv3.WithRev(now)) }()
		select {
		case r := <-responses:
			if len(r.Events) == 0 {
				t.Error("a watch after it receives nothing")
			}
		case <-late:
			t.Fatal("no watch can be had after it")
		}
		stop()
	}
}
