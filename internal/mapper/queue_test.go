package mapper

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/retry"
)

// TestQueueModel compares the queue with a naive one: every item that was pushed
// is handed out once, to one worker at a time, in order of priority.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		items := make([]*item, 6)
		for i := range items {
			items[i] = &item{kind: &kind{rank: rank(i % int(ranks))}, wanted: i%2 == 0}
		}
		clock := time.Unix(0, 0)
		pending, held := map[*item]bool{}, map[*item]bool{}
		due := map[*item]time.Time{}
		one := rapid.SampledFrom(items)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				it := one.Draw(t, "item")
				q.push(it)
				pending[it] = true
				delete(due, it)
			},
			"later": func(t *rapid.T) {
				it := one.Draw(t, "item")
				at := clock.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "after")) * time.Second)
				if old, ok := due[it]; !pending[it] && !held[it] && (!ok || at.Before(old)) {
					due[it] = at
				}
				q.pushAt(it, at)
			},
			"time": func(t *rapid.T) {
				clock = clock.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "seconds")) * time.Second)
				for it, at := range due {
					if !at.After(clock) {
						pending[it] = true
						delete(due, it)
					}
				}
				next, some := q.promote(clock)
				for it, at := range due { // it may also be too early, for what waits no more
					if !some || next.After(at) {
						t.Errorf("next is due at %s, %v; %p is at %s", next, some, it, at)
					}
				}
			},
			"pop": func(t *rapid.T) {
				it := q.pop(func(*kind) bool { return true })
				ready := 0
				for other := range pending {
					if held[other] {
						continue
					}
					ready++
					if it != nil && other.priority() < it.priority() {
						t.Errorf("priority %d before %d", it.priority(), other.priority())
					}
				}
				if (it == nil) != (ready == 0) {
					t.Fatalf("got %v of %d", it, ready)
				}
				if it != nil {
					if held[it] || !pending[it] {
						t.Error("an item was handed out twice")
					}
					delete(pending, it)
					held[it] = true
				}
			},
			"done": func(t *rapid.T) {
				if it := one.Draw(t, "item"); held[it] {
					q.done(it)
					delete(held, it)
				}
			},
		})
	})
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		defer e.stop()
		e.kindsChanged = func() {}
		o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
		e.touch([]touched{{object: o, want: putWant("1", "a")}})
		it, ok := e.next(t.Context())
		if !ok || it.id != o.Identity.String() {
			t.Fatalf("got %v", it)
		}
		start := time.Now()
		e.finish(it, result{wanted: true, retry: 7 * time.Second})
		if again, ok := e.next(t.Context()); !ok || again != it || time.Since(start) != 7*time.Second {
			t.Errorf("got %v after %s", again, time.Since(start))
		}
		// While the gate is closed nothing is handed out.
		e.setClosed("why")
		e.finish(it, result{wanted: true, retry: time.Second})
		go func() {
			retry.Pause(t.Context(), time.Minute)
			e.setClosed("")
		}()
		start = time.Now()
		if _, ok := e.next(t.Context()); !ok || time.Since(start) != time.Minute {
			t.Errorf("handed out after %s", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok := e.next(ctx); ok {
			t.Error("an item was handed out twice")
		}
	})
}

// TestDesiredAgainMeanwhile shows that what is desired again while its removal is
// under way is not forgotten when that ends.
func TestDesiredAgainMeanwhile(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.touch([]touched{{object: o}})
	it, ok := e.next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.touch([]touched{{object: o, want: putWant("1", "a")}})
	e.finish(it, result{gone: []key.Space{"s"}, forget: true})
	it, ok = e.next(t.Context())
	if !ok || !slices.Equal(e.view(it).spaces, []key.Space{"s"}) || !it.wanted {
		t.Errorf("it is left with %+v", it)
	}
}

// TestSeenMeanwhile shows that what a turn found out does not replace what was seen
// after it began.
func TestSeenMeanwhile(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.touch([]touched{{object: o, want: putWant("1", "a")}})
	it, ok := e.next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.observe("", []sighting{{object: o, ours: true, seen: observed{uid: "u", revision: 7}}})
	e.finish(it, result{wanted: true, seen: &observed{presence: absent}})
	if it.seen.presence != present || it.seen.uid != "u" {
		t.Errorf("it is seen as %+v", it.seen)
	}
}

// TestAnotherOfOurs shows that an object of ours is looked at that has the name of
// one which is gone and forgotten: it may be what a killed agent made last.
func TestAnotherOfOurs(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.touch([]touched{{object: o}})
	e.synced("", o.Resource, map[string]struct{}{}, 6)
	e.observe("", []sighting{{object: o, ours: true, seen: observed{uid: "another", revision: 7}}})
	it, ok := e.next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.finish(it, result{gone: []key.Space{"s"}, forget: true})
	if it.queue != ready {
		t.Error("it is left alone")
	}
}

// TestKindUsedAgain shows that a kind that was forgotten and is used again is not
// taken for one that is observed already.
func TestKindUsedAgain(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.touch([]touched{{object: o, want: putWant("1", "a")}})
	before := e.uses()[o.Resource]
	e.touch([]touched{{object: o}})
	it, ok := e.next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.finish(it, result{gone: []key.Space{"s"}, forget: true})
	e.touch([]touched{{object: o, want: putWant("1", "a")}})
	if after := e.uses()[o.Resource]; after == before || after.place != before.place {
		t.Errorf("it is to be observed as %+v, was %+v", after, before)
	}
}

func TestRepairsSlowDown(t *testing.T) {
	if d := repairDelay(0, time.Time{}, now); d != 0 {
		t.Errorf("the first repair waits %s", d)
	}
	if d := repairDelay(1, now.Add(-time.Minute), now); d > 0 {
		t.Errorf("a repair after a calm time waits %s", d)
	}
	if d := repairDelay(12, now, now); d < maxRetry/2 || d > maxRetry {
		t.Errorf("in a standing fight a repair waits %s", d)
	}
}
