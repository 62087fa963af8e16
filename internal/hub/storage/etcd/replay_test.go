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

// teller notes what it is told, in order.
type teller struct {
	mu    sync.Mutex
	since int64
	rev   int64
	told  []string
	// reached says that there is a new revision.
	reached chan struct{}
}

func (to *teller) Reset(rev int64, _ []table.Update) {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.since, to.rev, to.told = rev, rev, nil
}

func (to *teller) Apply(rev int64, updates []table.Update) error {
	to.mu.Lock()
	defer to.mu.Unlock()
	if rev <= to.rev {
		return fmt.Errorf("revision %d after %d", rev, to.rev)
	}
	to.rev = rev
	for _, u := range updates {
		to.told = append(to.told, fmt.Sprintf("%d %s %s", rev, u.Key, u.Value))
	}
	select {
	case to.reached <- struct{}{}:
	default:
	}
	return nil
}

func (to *teller) Progress(int64) {}

func (to *teller) Rev() int64 {
	to.mu.Lock()
	defer to.mu.Unlock()
	return to.rev
}

// broken ends the watches of some parts of a replay: of every of-th thousand of revisions, each as
// soon as it has sent one response, or at once. It goes by the part, because parts are watched
// concurrently, and leaves the tail's own watch alone, whose end would make the tail reload.
type broken struct {
	clientv3.Watcher
	interval int64
}

func (b broken) Watch(ctx context.Context, k string, opts ...clientv3.OpOption) clientv3.WatchChan {
	md, _ := metadata.FromOutgoingContext(ctx)
	part := md.Get("part")
	if b.interval == 0 || len(part) == 0 {
		return b.Watcher.Watch(ctx, k, opts...)
	}
	from, err := strconv.ParseInt(part[0], 10, 64)
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

// TestReplay: a long history is told as one watch tells it, revision by revision, also what is written
// meanwhile, and if watches end in the middle of it.
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
	for _, of := range []int64{0, 5, 2} {
		l.client.Watcher = broken{Watcher: watcher, interval: of}
		to := &teller{reached: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		lost := func(bool) {
			t.Errorf("of %d parts the watch of one ends, and the tail lost its log at revision %d", of, to.Rev())
		}
		group.Go(func() { _ = l.Tail(ctx, to, Hooks{Lost: lost, Loaded: func() {}, Asked: func(error) {}}) })
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
		if want := l.toldSince(t, watcher, to.since, now); len(want) < revisions || !slices.Equal(to.told, want) {
			t.Errorf("of %d parts the watch of one ends: %d are told, want %d", of, len(to.told), len(want))
		}
	}
}

// toldSince is what one watch tells of a history, after a revision and up to another.
func (l *Log) toldSince(t *testing.T, by clientv3.Watcher, rev, now int64) (told []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for r := range by.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
		for _, e := range r.Events {
			told = append(told, fmt.Sprintf("%d %s %s", e.Kv.ModRevision, below(e.Kv.Key), e.Kv.Value))
		}
		if n := len(r.Events); r.Err() != nil || n > 0 && r.Events[n-1].Kv.ModRevision >= now {
			break
		}
	}
	return told
}

// TestReplayEnds: a replay whose parts do not see their end is over when its time is, and others can
// watch after it.
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
		go func() { over <- (&tailer{log: l, to: &teller{rev: now}}).replay(short, now+mostParts*atOnce) }()
		select {
		case <-over:
			cancel()
		case <-late:
			t.Fatal("the replay does not end")
		}
		watching, stop := context.WithCancel(ctx)
		told := make(chan clientv3.WatchResponse, 1)
		go func() { told <- <-l.client.Watch(watching, Prefix, clientv3.WithPrefix(), clientv3.WithRev(now)) }()
		select {
		case r := <-told:
			if len(r.Events) == 0 {
				t.Error("nothing is told after it")
			}
		case <-late:
			t.Fatal("no watch can be had after it")
		}
		stop()
	}
}
