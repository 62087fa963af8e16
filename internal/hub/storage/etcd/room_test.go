package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/test/support/limit"
)

const (
	smallQuota = 32 << 20
	large      = 1400 << 10
	// markerKey formats a key as long as that of a marker.
	markerKey = "m/%026d"
)

// kept is a log with a small quota, with running Keep and Tail.
type kept struct {
	*Log
	t     *testing.T
	table *table.Writer
	stop  func()
}

// quickly is for tests without other requests.
var quickly = Throttle{Least: 20 * time.Millisecond}

func keepLog(t *testing.T, dir string, quota int64) *kept {
	t.Helper()
	return keepLogAt(t, dir, quota, quickly)
}

func keepLogAt(t *testing.T, dir string, quota int64, throttle Throttle) *kept {
	t.Helper()
	l, err := Open(t.Context(), Config{DataDir: dir, Quota: quota, UnsafeNoFsync: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	to := table.New(table.Config{WindowSteps: 10000, WindowBytes: 1 << 26})
	k := &kept{Log: l, t: t, table: to}
	ctx, cancel := context.WithCancel(t.Context())
	done, loaded := make(chan struct{}), make(chan struct{})
	tailed := make(chan struct{})
	go func() {
		defer close(tailed)
		_ = l.Tail(ctx, to, Hooks{Lost: func(bool) {}, Loaded: sync.OnceFunc(func() { close(loaded) }), Probed: func(error) {}})
	}()
	limit.Closed(t, loaded, "the table is loaded")
	go func() {
		defer close(done)
		_ = l.Keep(ctx, Keeping{Every: time.Minute, Seen: k.table.Rev, Floor: func() int64 { return 0 }, Reached: k.table.Rev, Quiet: time.Hour, Throttle: throttle})
	}()
	stopped := false
	k.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-done
		<-tailed
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(k.stop)
	return k
}

// put writes a value of a number of bytes if there is room for it.
func (k *kept) put(need Need, name string, size int) error {
	done, err := k.Capacity().Admit(k.t.Context(), need, size)
	if err != nil {
		return err
	}
	defer done()
	_, err = k.Write(k.t.Context(), []Op{{Key: "o/s/core/configmaps/default/" + name, Value: bytes.Repeat([]byte("x"), size)}})
	return err
}

// putAtLast repeats put after ErrLate: on a slow machine a defragmentation, and the pause after it, may
// take longer than a write waits.
func (k *kept) putAtLast(need Need, name string, size int) error {
	for deadline := time.Now().Add(limit.Wait); ; {
		if err := k.put(need, name, size); !errors.Is(err, ErrLate) || time.Now().After(deadline) {
			return err
		}
	}
}

func (k *kept) drop(name string) {
	k.t.Helper()
	eventually(k.t, func() error { // etcd answers late while it is defragmented
		_, err := k.Write(k.t.Context(), []Op{{Key: "o/s/core/configmaps/default/" + name}})
		return err
	})
}

// fill writes objects until there is no room, and returns their number.
func (k *kept) fill() int {
	k.t.Helper()
	for i := range 1000 {
		if row, _ := k.table.Get(fmt.Sprint("o/s/core/configmaps/default/fill-", i)); row != nil {
			continue
		}
		err := k.putAtLast(Growth, fmt.Sprint("fill-", i), large)
		if errors.Is(err, ErrFull) {
			k.t.Logf("full at %d: %v", i, err)
			return i
		}
		if err != nil {
			k.t.Fatal(err)
		}
	}
	k.t.Fatal("the log never gets full")
	return 0
}

// TestHistoryIsBoundedByBytes shows that updates of many times the quota are all accepted, and never
// make etcd's file larger than the quota.
func TestHistoryIsBoundedByBytes(t *testing.T) {
	t.Parallel() // it waits for room much of the time
	k := keepLogAt(t, t.TempDir(), smallQuota, DefaultThrottle())
	for i := range 200 { // 8 times the quota
		if err := k.putAtLast(Growth, "one", large); err != nil {
			t.Fatalf("update %d: %v", i, err)
		}
		if err := k.putAtLast(Growth, fmt.Sprint("small-", i%100), 300); err != nil {
			t.Fatalf("small update %d: %v", i, err)
		}
		status, err := k.client.Status(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if status.DbSize > smallQuota {
			t.Fatalf("update %d: the file has %d bytes, %d in use", i, status.DbSize, status.DbSizeInUse)
		}
	}
	t.Logf("%+v", k.Capacity().Usage())
	same(t, k.Log, k.table)
}

// TestFullLog shows that a hub can start on a full log and delete keys from it, and that writes of
// need Growth are accepted again when there is room.
func TestFullLog(t *testing.T) {
	t.Parallel() // it waits for room much of the time
	dir := t.TempDir()
	k := keepLog(t, dir, smallQuota)
	n := k.fill()
	if err := k.putAtLast(Upkeep, "small", 300); err != nil {
		t.Errorf("upkeep of a full log: %v", err)
	}
	if u := k.Capacity().Usage(); !u.Full || u.Alarm {
		t.Errorf("a full log says %+v", u)
	}
	k.stop()
	k = keepLog(t, dir, smallQuota)
	if _, _, err := k.Put(t.Context(), fmt.Sprintf(markerKey, 1), []byte(`{}`), 0); err != nil {
		t.Fatalf("start of a full log: %v", err)
	}
	k.fill()
	for i := range n / 2 {
		k.drop(fmt.Sprint("fill-", i))
	}
	eventually(t, func() error { return k.put(Growth, "more", large) })
	same(t, k.Log, k.table)
}

// TestAlarm shows that a log for which etcd refuses every put can be opened, and recovers after
// deletions, even if its quota was lowered below its size.
func TestAlarm(t *testing.T) {
	t.Parallel() // it waits for room much of the time
	dir := t.TempDir()
	k := keepLog(t, dir, smallQuota)
	n := 0
	for ; ; n++ { // without Admit
		_, err := k.Write(t.Context(), []Op{{Key: fmt.Sprint("o/s/core/configmaps/default/fill-", n), Value: make([]byte, large)}})
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	k.stop()
	for _, quota := range []int64{smallQuota, MinQuota} {
		k = keepLog(t, dir, quota)
		if _, _, err := k.Put(t.Context(), fmt.Sprintf(markerKey, quota), []byte(`{}`), 0); err != nil {
			t.Fatalf("start with a quota of %d: %v", quota, err)
		}
		if err := k.putAtLast(Growth, "more", large); !errors.Is(err, ErrFull) {
			t.Fatalf("growth of a full log after a restart: %v", err)
		}
		if u := k.Capacity().Usage(); !u.Full || u.Why == "" {
			t.Errorf("a full log says %+v", u)
		}
		k.stop()
	}
	k = keepLog(t, dir, MinQuota)
	for i := range n - 3 {
		k.drop(fmt.Sprint("fill-", i))
	}
	eventually(t, func() error { return k.put(Growth, "more", large) })
	if u := k.Capacity().Usage(); u.File > MinQuota || u.Full {
		t.Errorf("after deletions: %+v", u)
	}
	same(t, k.Log, k.table)
}

// TestFilledPast shows that a running log recovers from etcd's alarm.
func TestFilledPast(t *testing.T) {
	t.Parallel() // it waits for room much of the time
	k := keepLog(t, t.TempDir(), smallQuota)
	n := 0
	for ; ; n++ {
		if _, err := k.Write(t.Context(), []Op{{Key: fmt.Sprint("o/s/core/configmaps/default/fill-", n), Value: make([]byte, large)}}); err != nil {
			break
		}
	}
	k.Capacity().RefusedByEtcd()
	for i := range n - 3 {
		k.drop(fmt.Sprint("fill-", i))
	}
	eventually(t, func() error { return k.put(Growth, "more", large) })
}

// TestThrottle shows that blocking work leaves most of the time to requests.
func TestThrottle(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 100 * time.Millisecond: time.Second, 3 * time.Second: 15 * time.Second} {
		if got := DefaultThrottle().pause(took); got != want {
			t.Errorf("after %s follows a pause of %s, want %s", took, got, want)
		}
	}
}

// eventually waits for an effect of the log's maintenance: on a slow machine a defragmentation takes
// seconds.
func eventually(t *testing.T, ok func() error) {
	t.Helper()
	deadline := time.Now().Add(limit.Wait)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// TestStartAtTheOldestRevision shows that a table is loaded with all history that remains after a
// compaction by size.
func TestStartAtTheOldestRevision(t *testing.T) {
	dir := t.TempDir()
	k := keepLog(t, dir, smallQuota)
	begun := k.Capacity().Oldest()
	for range 10 { // more than the limit of history, but not so much that all history is compacted
		if err := k.put(Growth, "one", large); err != nil {
			t.Fatal(err)
		}
		// Keep learns the size of history from the tail. If the tail lags, Keep makes room instead, and compacts all history.
		same(t, k.Log, k.table)
	}
	eventually(t, func() error {
		if k.Capacity().Oldest() == begun {
			return errors.New("no history was compacted")
		}
		return nil
	})
	same(t, k.Log, k.table) // so the table has the newest revision of the log
	now := k.table.Rev()
	k.stop()
	oldest := oldestOf(t, dir, now)
	if oldest >= now {
		t.Fatalf("the oldest of revisions up to %d is %d", now, oldest)
	}
	k = keepLog(t, dir, smallQuota)
	if got := k.table.Oldest(); got != oldest {
		t.Fatalf("the table begins at revision %d, the log at %d", got, oldest)
	}
	same(t, k.Log, k.table)
}

// oldestOf returns the oldest revision of a log while Keep does not run.
func oldestOf(t *testing.T, dir string, now int64) int64 {
	t.Helper()
	l, err := Open(t.Context(), Config{DataDir: dir, Quota: smallQuota, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	oldest, err := (&tailer{log: l}).oldest(t.Context(), now)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	return oldest
}

// TestHistory compares the recorded size of history with a recount.
func TestHistory(t *testing.T) {
	h := newHistory()
	h.bound(64 << 10)
	h.reset(100)
	value := make([]byte, 1024-putOverhead)
	for rev := int64(101); rev <= 164; rev++ {
		h.add(rev, []*clientv3.Event{{Kv: &mvccpb.KeyValue{Value: value}}})
	}
	if h.exceeds() || h.kept() != 64<<10 {
		t.Fatalf("64 KiB: kept %d, exceeds %v", h.kept(), h.exceeds())
	}
	h.add(165, []*clientv3.Event{{Kv: &mvccpb.KeyValue{Value: value}}})
	if !h.exceeds() || h.half() != 133 {
		t.Fatalf("65 KiB: exceeds %v, half %d", h.exceeds(), h.half())
	}
	select {
	case <-h.over:
	default:
		t.Error("the keeper is not woken")
	}
	h.forget(h.half())
	if h.kept() != 32<<10 || h.exceeds() {
		t.Fatalf("after a compaction: kept %d", h.kept())
	}
	for rev := int64(200); rev < 100_000; rev++ { // without a compaction
		h.add(rev, []*clientv3.Event{{Kv: &mvccpb.KeyValue{Value: value}}})
	}
	if len(h.checkpoints) > maxCheckpoints || h.kept() != (32+100_000-200)<<10 {
		t.Errorf("without compactions: %d checkpoints, %d bytes", len(h.checkpoints), h.kept())
	}
	h.forget(1 << 40)
	if h.kept() != 0 {
		t.Errorf("all forgotten: %d bytes", h.kept())
	}
}

// releasing calls release when the second lease is granted: Keep grants leases while it waits until
// freed pages count as free, and has found an open read transaction by then.
type releasing struct {
	clientv3.Lease
	granted int // by the goroutine of Keep
	release func()
}

func (r *releasing) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if r.granted++; r.granted == 2 {
		r.release()
	}
	return r.Lease.Grant(ctx, ttl)
}

// TestFreedSpaceCounts shows that the pages that an attempt to make room frees count as free, even if a
// read transaction is open meanwhile and there are no later writes: etcd's database frees pages when it
// commits later write transactions.
func TestFreedSpaceCounts(t *testing.T) {
	t.Parallel()
	k := keepLog(t, t.TempDir(), smallQuota)
	reader := k.server.Server.Backend().ConcurrentReadTx()
	reader.RLock()
	released := make(chan struct{})
	release := sync.OnceFunc(func() { reader.RUnlock(); close(released) })
	defer release() // the log does not close before
	// While a read transaction is open, each update takes several times its size: these are enough to
	// fill the log, and far below the size at which etcd refuses them.
	const updates = 8
	for range updates {
		if _, err := k.Write(t.Context(), []Op{{Key: "o/s/core/configmaps/default/one", Value: make([]byte, large)}}); err != nil {
			t.Fatal(err)
		}
		k.server.Server.Backend().ForceCommit() // otherwise etcd may commit several in one
	}
	attempts := func() (begun, ended int) {
		k.capacity.room.mu.Lock()
		defer k.capacity.room.mu.Unlock()
		return k.capacity.room.begun, k.capacity.room.ended
	}
	eventually(t, func() error {
		if rev := k.table.Rev(); rev <= updates {
			return fmt.Errorf("the table is at %d", rev)
		}
		return nil
	})
	before, _ := attempts()
	k.meter.client.Lease = &releasing{Lease: k.meter.client.Lease, release: release}
	k.Capacity().RefusedByEtcd()
	limit.Closed(t, released, "an attempt to make room waits until freed space counts")
	if begun, _ := attempts(); begun == before {
		t.Error("no attempt to make room has begun")
	}
	eventually(t, func() error {
		if begun, ended := attempts(); begun != ended {
			return errors.New("room is being made")
		}
		return nil
	})
	if u := k.Capacity().Usage(); u.Full {
		t.Errorf("with one object of %d bytes the log is full: %s", large, u.Why)
	}
}
