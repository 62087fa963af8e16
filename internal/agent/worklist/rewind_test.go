package worklist

import (
	"testing"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestListsAreTheState shows that an object in a list replaces knowledge as of the list's revision,
// also if the object's own revision is lower, and not what was answered since.
func TestListsAreTheState(t *testing.T) {
	for _, c := range []struct {
		name               string
		known, shown, list uint64
		isReplaced         bool
	}{
		{"an older object of a later list", 50, 20, 60, true},
		{"an older object of the list at the same revision", 50, 20, 50, true},
		{"an older object, and an answer since the list", 70, 20, 60, false},
		{"an older object of a watch", 50, 20, 0, false},
	} {
		e := New()
		o := objectOf("s", "core/configmaps/n", 0)
		e.Touch([]store.Touched{{Object: o, Want: putWant()}})
		it := e.items[o.Identity.String()]
		it.seen = pack(decide.Observed{Existence: decide.Present, UID: "u", Revision: c.known, Fields: 1})
		e.Observe("", []Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "u", Revision: c.shown, Fields: 2}}}, c.list)
		if got := it.seen.observed(); (got.Fields == 2) != c.isReplaced {
			t.Errorf("%s: %+v", c.name, got)
		}
		e.Stop()
	}
}

// TestCopiedLabels shows that ours is not there any more when a list or watch shows another object, with
// our label, in its place.
func TestCopiedLabels(t *testing.T) {
	for _, list := range []uint64{0, 60} {
		e := New()
		o := objectOf("s", "core/configmaps/n", 0)
		e.Touch([]store.Touched{{Object: o, Want: putWant()}})
		e.Observe("", []Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "u", Revision: 50}}}, 50)
		e.Synced("", o.Resource, map[string]struct{}{o.Identity.String(): {}}, 50)
		it, _ := e.Next(t.Context())
		e.Finish(it, Result{Wanted: true, State: wire.Applied})
		e.Observe("", []Sighting{{Object: o, Seen: decide.Observed{UID: "another", Revision: 60}}}, list)
		if now := e.View(it); now.Seen.Existence != decide.Absent || e.Ready() != 1 {
			t.Errorf("it is seen as %+v, and %d are queued", now.Seen, e.Ready())
		}
		e.Stop()
	}
}

// TestRewind shows that what was seen of a kind is forgotten, and that the answers of turns which began
// before do not count.
func TestRewind(t *testing.T) {
	e := New()
	defer e.Stop()
	o := objectOf("s", "core/configmaps/n", 0)
	e.Touch([]store.Touched{{Object: o, Want: putWant()}})
	e.Observe("", []Sighting{{Object: o, Ours: true, Seen: decide.Observed{UID: "u", Revision: 90}}}, 90)
	e.Synced("", o.Resource, map[string]struct{}{o.Identity.String(): {}}, 90)
	if n := Reached(e, o.Resource); n != 90 {
		t.Errorf("the newest revision is %d", n)
	}
	it, _ := e.Next(t.Context())
	view := e.View(it)
	Rewind(e, "", &o.Resource)
	late := decide.Observed{Existence: decide.Present, UID: "u", Revision: 95}
	e.Saw(it, &view, late)
	e.Finish(it, Result{Wanted: true, State: wire.Applied, Seen: &late, History: view.History})
	if now := e.View(it); now.Seen.Existence != decide.Unseen || it.seen.revision != 0 {
		t.Errorf("it is seen as %+v", now.Seen)
	}
	e.Synced("", o.Resource, nil, 40)
	if now := e.View(it); now.Seen.Existence != decide.Absent {
		t.Errorf("after a list without it, it is seen as %+v", now.Seen)
	}
	before := e.Uses()[o.Resource]
	if Rewind(e, "", nil); e.Uses()[o.Resource] == before {
		t.Error("the kind is not listed again")
	}
}

// TestRewindOfOneKind shows that to forget one kind leaves what a list that goes on has shown of another
// one: after a restore the kinds are listed at the same time.
func TestRewindOfOneKind(t *testing.T) {
	e := New()
	defer e.Stop()
	o, other := objectOf("s", "core/configmaps/n", 0), objectOf("s", "batch/jobs/n", 0)
	e.Touch([]store.Touched{{Object: o, Want: putWant()}, {Object: other, Want: putWant()}})
	e.Observe("", []Sighting{{Object: other, Ours: true, Ended: "Complete", Seen: decide.Observed{UID: "u", Revision: 40}}}, 40)
	Rewind(e, "", &o.Resource)
	e.Synced("", other.Resource, map[string]struct{}{other.Identity.String(): {}}, 40)
	it := e.items[other.Identity.String()]
	if now := e.View(it); now.Seen.Existence != decide.Present || now.Ending.How != "Complete" {
		t.Errorf("the object of the other kind is seen as %+v", now)
	}
}
