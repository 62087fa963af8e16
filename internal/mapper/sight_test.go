package mapper

import (
	"testing"

	"orrery.dev/orrery/internal/wire"
)

// TestOwnAnswersAreNoNews shows that what a worker did itself needs no second turn
// when the watch shows it, while what somebody did meanwhile does.
func TestOwnAnswersAreNoNews(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	o := objectOf("s", "core/configmaps/n", 0)
	e.touch([]touched{{object: o, want: putWant("1", "a")}})
	if e.observe([]sighting{{object: o, ours: true, seen: observed{uid: "u", revision: 1}}}); e.queue.count != 1 {
		t.Fatalf("%d queued", e.queue.count)
	}
	e.synced(o.Resource, nil, 2)
	for _, c := range []struct {
		name  string
		shown observed
		again bool
	}{
		{"our own", observed{uid: "u", revision: 5, fields: 7}, false},
		{"an older state", observed{uid: "u", revision: 4, fields: 6}, false},
		{"the same again, later", observed{uid: "u", revision: 6, fields: 7}, false},
		{"somebody else's", observed{uid: "u", revision: 7, fields: 8}, true},
	} {
		e.queue.push(e.items[o.Identity.String()])
		it, _ := e.next(t.Context())
		ours := observed{presence: present, uid: "u", revision: 5, fields: 7}
		it.seen = observed{presence: absent}
		e.saw(it, ours)
		e.observe([]sighting{{object: o, ours: true, seen: c.shown}})
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
