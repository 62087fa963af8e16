package table

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestConcurrentReaders runs readers of many kinds during changes of a table. Each revision changes
// several keys; no reader may ever see only some of these changes, and each must end with the state of
// the table.
func TestConcurrentReaders(t *testing.T) {
	const revisions, keysPerRevision = 2000, 4
	d := &testDeriver{}
	d.Reset()
	table := New(Config{Deriver: d, WindowSteps: 100, WindowBytes: 1 << 20})
	keys := make([]string, keysPerRevision)
	for i := range keys {
		keys[i] = fmt.Sprintf("o/s1/core/configmaps/default/%d", i)
	}
	topics := []Topic{
		PrefixTopic("o/"), PrefixTopic("o/s1/"), PrefixTopic("o/s1/core/configmaps/"), LocationTopic("l1"),
		ResourceTopic(key.Resource{Group: "core", Resource: "configmaps"}),
	}
	var readers sync.WaitGroup
	for i := range 4 * len(topics) {
		readers.Go(func() {
			// Some readers are so slow that they fall out of the window.
			if err := follow(table.Table, topics[i%len(topics)], revisions, keysPerRevision, i%4 == 0); err != nil {
				t.Errorf("reader of %v: %v", topics[i%len(topics)], err)
			}
		})
	}
	for rev := int64(1); rev <= revisions; rev++ {
		updates := make([]Update, keysPerRevision)
		for i, k := range keys {
			updates[i] = Update{Key: k, Value: fmt.Appendf(nil, "l1;%d", rev), CreateRev: 1, ModRev: rev}
		}
		if rev == revisions/2 {
			table.Reset(rev, updates)
		} else if err := table.Apply(rev, updates); err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
	if len(table.subs) != 0 {
		t.Errorf("%d topics left", len(table.subs))
	}
}

// slowness is the number of revisions by which slow readers lag, which is more than the window has.
const slowness = 150

// follow lists and watches until the table reaches a revision, as clients do.
func follow(t *Table, topic Topic, until int64, keys int, slow bool) error {
	for {
		rev, err := list(t, keys)
		if err != nil || rev == until {
			return err
		}
		sub, err := t.Subscribe(rev, nil, topic)
		if errors.Is(err, ErrExpired) {
			continue
		} else if err != nil {
			return err
		}
		err = watch(sub, rev, until, keys, slow)
		sub.Close()
		if !errors.Is(err, ErrExpired) {
			return err
		}
	}
}

// list reads one state, and returns an error if it has a part of a revision.
func list(t *Table, keys int) (int64, error) {
	snap := t.Snapshot()
	n := 0
	var bad error
	snap.Ascend("o/s1/", func(r *Row) bool {
		n++
		if r.ModRev != snap.Rev {
			bad = fmt.Errorf("snapshot at %d has %s of %d", snap.Rev, r.Key, r.ModRev)
		}
		return bad == nil
	})
	if bad == nil && n != keys && snap.Rev > 0 {
		bad = fmt.Errorf("snapshot at %d has %d rows", snap.Rev, n)
	}
	if rows, rev := t.Members("l1"); bad == nil && rev > 0 && (len(rows) != keys || rows[0].ModRev != rev) {
		bad = fmt.Errorf("member at %d has %d rows", rev, len(rows))
	}
	return snap.Rev, bad
}

// watch reads the steps after a revision and up to another, and returns an error if one is missing or
// incomplete.
func watch(sub *Subscription, rev, until int64, keys int, slow bool) error {
	for {
		steps, upTo, err := sub.Poll()
		if err != nil {
			return err
		}
		for _, s := range steps {
			if s.Rev != rev+1 || s.Rev > upTo || len(s.Changes) != keys {
				return fmt.Errorf("step %d with %d changes behind %d, up to %d", s.Rev, len(s.Changes), rev, upTo)
			}
			rev = s.Rev
		}
		if upTo != rev && len(steps) > 0 || upTo < rev {
			return fmt.Errorf("poll reached %d, its steps %d", upTo, rev)
		}
		if rev == until {
			return nil
		}
		if !slow {
			<-sub.Wake()
		} else if err := sub.table.WaitFor(context.Background(), min(rev+slowness, until)); err != nil {
			return err
		}
	}
}

// TestCatchUpInParts reads a history that is longer than one Poll reads.
func TestCatchUpInParts(t *testing.T) {
	table := New(Config{WindowSteps: 3 * catchUpSteps, WindowBytes: 1 << 30})
	const total = 2*catchUpSteps + 10
	for rev := int64(1); rev <= total; rev++ {
		k := "o/s/core/configmaps/ns/a"
		if rev%2 == 0 {
			k = "o/other/core/configmaps/ns/a"
		}
		if err := table.Apply(rev, []Update{{Key: k, Value: []byte("{}"), CreateRev: 1, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	sub, err := table.Subscribe(0, nil, PrefixTopic("o/s/"))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	next, polls := int64(1), 0
	for upTo := int64(0); upTo < total; polls++ {
		select {
		case <-sub.Wake():
		default:
			t.Fatalf("at %d there is more, but nothing wakes the reader", upTo)
		}
		var steps []Step
		if steps, upTo, err = sub.Poll(); err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s.Rev != next {
				t.Fatalf("step %d, want %d", s.Rev, next)
			}
			next += 2
		}
		if next <= upTo {
			t.Fatalf("up to %d, but step %d is missing", upTo, next)
		}
	}
	if polls != 3 {
		t.Errorf("%d polls", polls)
	}
}

// TestWindowBytes shows that each window has a limit of bytes of its own.
func TestWindowBytes(t *testing.T) {
	table := New(Config{WindowSteps: 1000, WindowBytes: 100_000})
	value := make([]byte, 10_000)
	put := func(rev int64, k string) {
		t.Helper()
		if err := table.Apply(rev, []Update{{Key: k, Value: value, CreateRev: rev, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	const object, report, event = "o/s/core/configmaps/ns/a", "r/l/s/placed/core/configmaps/ns/a", "o/s/core/events/ns/a"
	put(1, object)
	for rev := int64(2); rev <= 100; rev++ {
		put(rev, report)
		rev++
		put(rev, event)
	}
	for k, floor := range map[string]bool{object: false, report: true, event: true} {
		rev := table.Floor(KeyTopic(k))
		if (rev > 0) != floor {
			t.Errorf("the floor of %s is %d", k, rev)
		}
		if w := &table.windows[windowOf(k)]; w.bytes > w.maxBytes || w.bytes < 0 {
			t.Errorf("the window of %s holds %d bytes", k, w.bytes)
		}
	}
	if _, err := table.Subscribe(0, nil, PrefixTopic("o/s/")); err != nil {
		t.Errorf("resume among objects: %v", err)
	}
	value = make([]byte, 200_000) // more than the limit of a window
	put(200, object)
	if got := table.Floor(KeyTopic(object)); got != 200 {
		t.Errorf("floor %d behind a huge step, want 200", got)
	}
	if w := &table.windows[objectWindow]; w.bytes != 0 || len(w.steps) != 0 {
		t.Errorf("%d bytes in %d steps are left", w.bytes, len(w.steps))
	}
}

// TestWakeFollowsRevision shows that a subscription is woken only when the table has reached the
// revision, so that no Poll finds an incomplete step.
func TestWakeFollowsRevision(t *testing.T) {
	table := New(Config{WindowSteps: 10, WindowBytes: 1 << 20})
	sub, err := table.Subscribe(0, nil, PrefixTopic("o/s/"))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	<-sub.Wake() // there may be history
	if steps, upTo, err := sub.Poll(); len(steps) != 0 || upTo != 0 || err != nil {
		t.Fatal(steps, upTo, err)
	}
	for rev := int64(1); rev <= 100; rev++ {
		k := "o/s/core/configmaps/ns/a"
		mine := rev%3 != 0
		if !mine {
			k = "o/t/core/configmaps/ns/a"
		}
		if err := table.Apply(rev, []Update{{Key: k, Value: []byte("{}"), CreateRev: 1, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
		woken := false
		select {
		case <-sub.Wake():
			woken = true
		default:
		}
		if woken != mine {
			t.Fatalf("revision %d: woken %v, concerned %v", rev, woken, mine)
		}
		if steps, upTo, err := sub.Poll(); (len(steps) == 1) != mine || upTo != rev || err != nil {
			t.Fatal(steps, upTo, err)
		}
	}
}

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(Config{})
		table.Progress(5)
		if err := table.WaitFor(t.Context(), 5); err != nil {
			t.Error(err)
		}
		var reached int64
		go func() {
			if err := table.WaitFor(t.Context(), 7); err != nil {
				t.Error(err)
			}
			reached = table.Rev()
		}()
		synctest.Wait()
		table.Progress(6)
		synctest.Wait()
		if reached != 0 {
			t.Errorf("the wait for 7 ended at 6")
		}
		if err := table.Apply(8, nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if reached != 8 {
			t.Errorf("the wait for 7 ended at %d, want 8", reached)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := table.WaitFor(ctx, 9); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait for a revision that does not come: %v", err)
		}
	})
}
