package worklist

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestQueueModel compares the queue with a naive one: every item that was pushed
// is handed out once, to one worker at a time, in order of priority.
func TestQueueModel(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		var q queue
		items := make([]*Item, 6)
		for i := range items {
			items[i] = &Item{kind: &kind{rank: rank(i % int(ranks))}, wanted: i%2 == 0}
		}
		clock := time.Unix(0, 0)
		pending, held := map[*Item]bool{}, map[*Item]bool{}
		due := map[*Item]time.Time{}
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
				when := clock.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "after")) * time.Second)
				if old, ok := due[it]; !pending[it] && !held[it] && (!ok || when.Before(old)) {
					due[it] = when
				}
				q.pushAt(it, when)
			},
			"time": func(t *rapid.T) {
				clock = clock.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "seconds")) * time.Second)
				for it, when := range due {
					if !when.After(clock) {
						pending[it] = true
						delete(due, it)
					}
				}
				next, some := q.promote(clock)
				for it, when := range due { // it may also be too early, for an item that waits no more
					if !some || next.After(when) {
						t.Errorf("next is due at %s, %v; %p is at %s", next, some, it, when)
					}
				}
			},
			"pop": func(t *rapid.T) {
				it := q.pop(clock, func(*kind, bool) bool { return true }) // clock is earlier than each push
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
		e := New()
		defer e.Stop()
		o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
		e.Touch([]store.Touched{{Object: o, Want: putWant()}})
		it, ok := e.Next(t.Context())
		if !ok || it.ID != o.Identity.String() {
			t.Fatalf("got %v", it)
		}
		start := time.Now()
		e.Finish(it, Result{Wanted: true, Retry: 7 * time.Second})
		if again, ok := e.Next(t.Context()); !ok || again != it || time.Since(start) != 7*time.Second {
			t.Errorf("got %v after %s", again, time.Since(start))
		}
		// While the gate is closed nothing is handed out.
		e.SetMode(Closed, "closed")
		e.Finish(it, Result{Wanted: true, Retry: time.Second})
		go func() {
			retry.Pause(t.Context(), time.Minute)
			e.SetMode(Open, "")
		}()
		start = time.Now()
		if _, ok := e.Next(t.Context()); !ok || time.Since(start) != time.Minute {
			t.Errorf("handed out after %s", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok := e.Next(ctx); ok {
			t.Error("an item was handed out twice")
		}
	})
}

// TestDesiredAgainMeanwhile shows that an object that is desired again while its removal
// is under way is not forgotten when that ends.
func TestDesiredAgainMeanwhile(t *testing.T) {
	e := New()
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.Touch([]store.Touched{{Object: o}})
	it, ok := e.Next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.Touch([]store.Touched{{Object: o, Want: putWant()}})
	e.Finish(it, Result{Gone: []key.Space{"s"}, Forget: true})
	it, ok = e.Next(t.Context())
	if !ok || !slices.Equal(e.View(it).Spaces, []key.Space{"s"}) || !it.wanted {
		t.Errorf("it is left with %+v", it)
	}
}

// TestSeenMeanwhile shows that what a turn found does not replace what was observed after
// the turn began.
func TestSeenMeanwhile(t *testing.T) {
	e := New()
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.Touch([]store.Touched{{Object: o, Want: putWant()}})
	it, ok := e.Next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.Observe("", []Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "u", Revision: 7}}}, 0)
	e.Finish(it, Result{Wanted: true, Seen: &decide.Observed{Existence: decide.Absent}})
	if it.seen.existence != decide.Present || it.seen.id() != "u" {
		t.Errorf("it is seen as %+v", it.seen.observed())
	}
}

// TestAnotherOfOurs shows that an object of ours gets a turn if it has the name of one
// that is gone and forgotten: a killed agent may have created it last.
func TestAnotherOfOurs(t *testing.T) {
	e := New()
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.Touch([]store.Touched{{Object: o}})
	e.Synced("", o.Resource, map[string]struct{}{}, 6)
	e.Observe("", []Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "another", Revision: 7}}}, 0)
	it, ok := e.Next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.Finish(it, Result{Gone: []key.Space{"s"}, Forget: true})
	if it.queue != ready {
		t.Error("it is left alone")
	}
}

// TestKindUsedAgain shows that a kind that was forgotten and is used again is not
// taken for one that is observed already.
func TestKindUsedAgain(t *testing.T) {
	e := New()
	o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
	e.Touch([]store.Touched{{Object: o, Want: putWant()}})
	before := e.Uses()[o.Resource]
	e.Touch([]store.Touched{{Object: o}})
	it, ok := e.Next(t.Context())
	if !ok {
		t.Fatal("there is nothing to do")
	}
	e.Finish(it, Result{Gone: []key.Space{"s"}, Forget: true})
	e.Touch([]store.Touched{{Object: o, Want: putWant()}})
	if after := e.Uses()[o.Resource]; after == before || after.Place != before.Place {
		t.Errorf("it is to be observed as %+v, was %+v", after, before)
	}
}

func TestRepairsSlowDown(t *testing.T) {
	if d := (&repairs{}).delay(now); d != 0 {
		t.Errorf("the first repair waits %s", d)
	}
	if d := (&repairs{count: 1, last: now.Add(-time.Minute)}).delay(now); d > 0 {
		t.Errorf("a repair after a calm time waits %s", d)
	}
	if d := (&repairs{count: 12, last: now}).delay(now); d < mostRepairDelay/2 || d > mostRepairDelay {
		t.Errorf("in a standing fight a repair waits %s", d)
	}
}

func objectOf(space key.Space, resource string, i int) key.Object {
	return key.Object{Space: space, Identity: parseIdentity(fmt.Sprintf("%s/%s-%d", resource, space, i))}
}

// TestSpacesTakeTurns shows that a space with much to do does not keep others
// waiting.
func TestSpacesTakeTurns(t *testing.T) {
	e := New()
	var all []store.Touched
	for i := range 1000 {
		all = append(all, store.Touched{Object: objectOf("big", "core/configmaps/n", i), Want: putWant()})
	}
	for i := range 5 {
		all = append(all, store.Touched{Object: objectOf("small", "core/configmaps/n", i), Want: putWant()})
	}
	e.Touch(all)
	small := 0
	for range 10 {
		if it, _ := e.Next(t.Context()); it.home() == "small" {
			small++
		}
	}
	if small != 5 {
		t.Errorf("%d of the first 10 were of the small space", small)
	}
	e.queue.later = nil
}

// TestOverduePriorities has many objects of a kind that is made first and takes long for each. A change
// of a kind that is made later, and a removal, have their turns within seconds.
func TestOverduePriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New()
		defer e.Stop()
		var all []store.Touched
		for i := range 200 {
			all = append(all, store.Touched{Object: objectOf("s", "core/configmaps/n", i), Want: putWant()})
		}
		edited, removed := objectOf("s", "apps/deployments/n", 0), objectOf("s", "core/secrets/n", 0)
		e.Touch(append(all, store.Touched{Object: edited, Want: putWant()}, store.Touched{Object: removed}))
		slow := 0
		for waiting := map[string]bool{edited.Identity.String(): true, removed.Identity.String(): true}; len(waiting) > 0; {
			it, ok := e.Next(t.Context())
			if !ok {
				t.Fatal("there is nothing to do")
			}
			if waiting[it.ID] {
				delete(waiting, it.ID)
			} else if slow++; slow > 20 {
				t.Fatalf("%d slow objects had a turn, and %v still wait", slow, waiting)
			}
			retry.Pause(t.Context(), time.Second)
			e.Finish(it, Result{Wanted: it.wanted, State: wire.Applied})
		}
	})
}

// TestFreshBeforeFailing has thousands of refused objects of a kind. A good one among them has its turn
// at once, and the refused ones go on having turns.
func TestFreshBeforeFailing(t *testing.T) {
	e := New()
	defer e.Stop()
	var all []store.Touched
	for i := range 2000 {
		all = append(all, store.Touched{Object: objectOf("s", "core/configmaps/n", i), Want: putWant()})
	}
	e.Touch(all)
	for range all {
		it, _ := e.Next(t.Context())
		e.Finish(it, Result{Wanted: true, State: wire.Failed, Failed: true})
	}
	e.Push((*Item).Desired)
	good := objectOf("t", "core/configmaps/n", 0)
	good.Space = "s"
	e.Touch([]store.Touched{{Object: good, Want: putWant()}})
	var order []string
	for range 2 {
		it, _ := e.Next(t.Context())
		order = append(order, it.ID)
		e.Finish(it, Result{Wanted: true, State: wire.Failed, Failed: true})
	}
	if !slices.Contains(order, good.Identity.String()) {
		t.Errorf("the good object has none of the first turns, which %v have", order)
	}
}

// TestNothingStarves has a kind whose every object fails after a long time, an object
// that changes without pause, and others. The others are done as if they were alone.
func TestNothingStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New()
		defer e.Stop()
		hot := objectOf("s", "core/configmaps/hot", 0)
		all := []store.Touched{{Object: hot, Want: putWant()}}
		for i := range 200 {
			all = append(all,
				store.Touched{Object: objectOf("s", "core/secrets/n", i), Want: putWant()},     // fail
				store.Touched{Object: objectOf("s", "apps/deployments/n", i), Want: putWant()}) // are well
		}
		e.Touch(all)
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		var mu sync.Mutex
		well, hots := 0, 0
		var lastWell time.Duration
		start := time.Now()
		for range 8 {
			workers.Go(func() {
				for {
					it, ok := e.Next(ctx)
					if !ok {
						return
					}
					r := Result{Wanted: true, State: wire.Applied}
					switch it.kind.resource.Resource {
					case "secrets":
						retry.Pause(ctx, 10*time.Second)
						r = Result{Wanted: true, Failed: true, Retry: time.Second}
					case "deployments":
						retry.Pause(ctx, 10*time.Millisecond)
						mu.Lock()
						well, lastWell = well+1, time.Since(start)
						mu.Unlock()
					default:
						retry.Pause(ctx, 10*time.Millisecond)
						mu.Lock()
						hots++
						mu.Unlock()
						e.Touch(all[:1]) // it has changed already
					}
					e.Finish(it, r)
				}
			})
		}
		retry.Pause(ctx, 5*time.Minute)
		cancel()
		workers.Wait()
		if well != 200 || lastWell > 15*time.Second {
			t.Errorf("%d were done, the last one after %s", well, lastWell)
		}
		if hots < 1000 {
			t.Errorf("the one that changes was done %d times", hots)
		}
	})
}
