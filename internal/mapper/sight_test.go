package mapper

import (
	"testing"

	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/wire"
)

// TestOwnAnswersAreNoNews shows that what a worker did itself needs no second turn
// when the watch shows it, while what somebody did meanwhile does.
func TestOwnAnswersAreNoNews(t *testing.T) {
	e := newEngine()
	o := objectOf("s", "core/configmaps/n", 0)
	e.touch([]store.Touched{{Object: o, Want: putWant("1", "a")}})
	if e.observe("", []sighting{{object: o, ours: true, seen: decide.Observed{UID: "u", Revision: 1}}}); e.queue.count != 1 {
		t.Fatalf("%d queued", e.queue.count)
	}
	e.synced("", o.Resource, nil, 2)
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
		it, _ := e.next(t.Context())
		ours := decide.Observed{Presence: decide.Present, UID: "u", Revision: 5, Fields: 7}
		it.seen = decide.Observed{Presence: decide.Absent}
		e.saw(it, "", ours)
		e.observe("", []sighting{{object: o, ours: true, seen: c.shown}})
		e.finish(it, result{wanted: true, state: wire.Applied, seen: &ours})
		if again := e.queue.count > 0; again != c.again {
			t.Errorf("%s: queued again: %t", c.name, again)
		}
		if e.queue.count > 0 {
			e.next(t.Context())
			e.finish(it, result{wanted: true, state: wire.Applied})
		}
	}
	e.stop()
}

// TestAnotherIdentity shows that nothing counts that the location came to see as what it
// was before it was made again: not what was known, and not what lists, watches and turns
// show that were under way, before the new list or after it.
func TestAnotherIdentity(t *testing.T) {
	const former, now = marks.Owner("edge.11111111"), marks.Owner("edge.22222222")
	for _, late := range []bool{false, true} {
		e := newEngine()
		e.identify(former)
		o := objectOf("s", "core/configmaps/n", 0)
		e.touch([]store.Touched{{Object: o, Want: putWant("1", "a")}})
		shown := []sighting{{object: o, ours: true, seen: decide.Observed{UID: "u", Revision: 5, Fields: 7}}}
		e.observe(former, shown)
		e.synced(former, o.Resource, map[string]struct{}{o.Identity.String(): {}}, 5)
		it, _ := e.next(t.Context())
		answer := decide.Observed{Presence: decide.Present, UID: "u", Revision: 50, Fields: 7}
		finish := func() {
			e.saw(it, former, answer)
			e.finish(it, result{wanted: true, state: wire.Applied, as: former, seen: &answer})
		}
		<-e.news // of the kind, and of the identity
		e.identify(former)
		select {
		case <-e.news:
			t.Fatal("the same identity is news")
		default:
		}
		e.identify(now)
		select {
		case <-e.news:
		default:
			t.Fatal("another identity is no news")
		}
		if v := e.view(it); v.as != now || v.seen != (decide.Observed{}) {
			t.Errorf("what was known is %+v", v.seen)
		}
		if !late {
			finish()
		}
		e.observe(former, shown)
		e.synced(former, o.Resource, map[string]struct{}{o.Identity.String(): {}}, 60)
		if v := e.view(it); v.seen.Presence != decide.Unseen {
			t.Errorf("a list of the former location counts: %+v", v.seen)
		}
		e.synced(now, o.Resource, nil, 40)
		if late {
			finish()
		}
		if v := e.view(it); v.seen.Presence != decide.Absent || e.queue.count != 1 {
			t.Errorf("the answer counts: %+v, and %d are queued", v.seen, e.queue.count)
		}
		e.stop()
	}
}
