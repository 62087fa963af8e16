package worklist

import (
	"testing"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestOwnAnswersAreNoNews shows that a worker's own write needs no second turn when the
// watch shows it, while a write of another client in between does.
func TestOwnAnswersAreNoNews(t *testing.T) {
	e := New()
	o := objectOf("s", "core/configmaps/n", 0)
	e.Touch([]store.Touched{{Object: o, Want: putWant()}})
	if e.Observe("", []Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "u", Revision: 1}}}, 0); e.queue.count != 1 {
		t.Fatalf("%d queued", e.queue.count)
	}
	e.Synced("", o.Resource, nil, 2)
	for _, c := range []struct {
		name  string
		shown decide.Observed
		again bool
	}{
		{"our own", decide.Observed{UID: "u", Revision: 5, Fields: 7}, false},
		{"an older state", decide.Observed{UID: "u", Revision: 4, Fields: 6}, false},
		{"the same again, later", decide.Observed{UID: "u", Revision: 6, Fields: 7}, false},
		{"somebody else's", decide.Observed{UID: "u", Revision: 7, Fields: 8}, true},
	} {
		e.queue.push(e.items[o.Identity.String()])
		it, _ := e.Next(t.Context())
		ours := decide.Observed{Existence: decide.Present, UID: "u", Revision: 5, Fields: 7}
		it.seen = pack(decide.Observed{Existence: decide.Absent})
		e.Saw(it, &View{}, ours)
		e.Observe("", []Sighting{{Object: o, Ours: true, Seen: c.shown}}, 0)
		e.Finish(it, Result{Wanted: true, State: wire.Applied, Seen: &ours})
		if again := e.queue.count > 0; again != c.again {
			t.Errorf("%s: queued again: %t", c.name, again)
		}
		if e.queue.count > 0 {
			e.Next(t.Context())
			e.Finish(it, Result{Wanted: true, State: wire.Applied})
		}
	}
	e.Stop()
}

// TestAnotherIdentity shows that nothing counts that was observed as the location before
// it was made again: neither former observations nor the results of lists, watches and turns
// that were under way, before the new list or after it.
func TestAnotherIdentity(t *testing.T) {
	const former, now = ownership.Owner("edge.11111111"), ownership.Owner("edge.22222222")
	for _, late := range []bool{false, true} {
		e := New()
		e.Identify(former)
		o := objectOf("s", "core/configmaps/n", 0)
		e.Touch([]store.Touched{{Object: o, Want: putWant()}})
		shown := []Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "u", Revision: 5, Fields: 7}}}
		e.Observe(former, shown, 0)
		e.Synced(former, o.Resource, map[string]struct{}{o.Identity.String(): {}}, 5)
		it, _ := e.Next(t.Context())
		answer := decide.Observed{Existence: decide.Present, UID: "u", Revision: 50, Fields: 7}
		finish := func() {
			e.Saw(it, &View{As: former}, answer)
			e.Finish(it, Result{Wanted: true, State: wire.Applied, As: former, Seen: &answer})
		}
		<-e.News // of the kind, and of the identity
		e.Identify(former)
		select {
		case <-e.News:
			t.Fatal("the same identity is news")
		default:
		}
		e.Identify(now)
		select {
		case <-e.News:
		default:
			t.Fatal("another identity is no news")
		}
		if v := e.View(it); v.As != now || v.Seen != (decide.Observed{}) {
			t.Errorf("what was known is %+v", v.Seen)
		}
		if !late {
			finish()
		}
		e.Observe(former, shown, 0)
		e.Synced(former, o.Resource, map[string]struct{}{o.Identity.String(): {}}, 60)
		if v := e.View(it); v.Seen.Existence != decide.Unseen {
			t.Errorf("a list of the former location counts: %+v", v.Seen)
		}
		e.Synced(now, o.Resource, nil, 40)
		if late {
			finish()
		}
		if v := e.View(it); v.Seen.Existence != decide.Absent || e.queue.count != 1 {
			t.Errorf("the answer counts: %+v, and %d are queued", v.Seen, e.queue.count)
		}
		e.Stop()
	}
}
