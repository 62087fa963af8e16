package fencing

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/protocol/ownership"
)

const location ownership.Owner = "paris.0a1b2c3d"

// names is the Lease of the location as the list or the watch shows it when it names a state.
func names(c Copy, version string) *ownership.Meta {
	return &ownership.Meta{
		Namespace: "orrery-system", Name: nameOfMark(location), UID: "1", ResourceVersion: version,
		Annotations: map[string]string{storeAnnotation: c.ID, movesAnnotation: strconv.FormatUint(c.Moves, 10)},
	}
}

// TestMarkShowsANewerStore shows an agent, after its start, the Lease of the location, which is evidence
// against its store if an agent has acted since with that store or another.
func TestMarkShowsANewerStore(t *testing.T) {
	own, former, none := Copy{"own", 5}, Copy{"former", 7}, Copy{}
	for name, c := range map[string]struct {
		first, second   Copy // what the Lease names; without an ID: there is none
		former          *Copy
		assures, proves bool
		found           *Copy
		want            bool
	}{
		"no Lease":                               {former: &none},
		"its own state":                          {first: own, former: &none},
		"an older state of its own":              {first: Copy{"own", 4}, former: &none},
		"a newer state of its own":               {first: Copy{"own", 6}, former: &none, want: true},
		"a newer state of its own, later":        {first: own, second: Copy{"own", 6}, former: &none, want: true},
		"another store":                          {first: former, former: &none, want: true},
		"another store, although a session":      {first: former, former: &none, assures: true, proves: true, want: true},
		"another store later, in a session":      {first: own, second: former, former: &none, proves: true},
		"a Lease that names nothing":             {first: Copy{"", 8}, former: &former},
		"the store that it replaces":             {first: former, former: &former},
		"an older state of that":                 {first: Copy{"former", 2}, former: &former},
		"a newer state of that":                  {first: Copy{"former", 8}, former: &former, want: true},
		"a newer state of that, in a session":    {first: former, second: Copy{"former", 8}, former: &former, assures: true, found: &Copy{"former", 8}},
		"one that has replaced it":               {first: Copy{"next", 1}, former: &former, want: true},
		"one that has replaced it, in a session": {first: Copy{"next", 1}, former: &former, assures: true, want: true},
		"a Lease where there was none":           {second: former, former: &none, want: true},
		"unused, with no Lease":                  {found: &none},
		"unused, with another store":             {first: former, second: former, found: &former},
		"unused, with a newer state of its own":  {first: Copy{"own", 6}, want: true},
		"unused, with a second store later":      {first: former, second: Copy{"next", 1}, found: &former, want: true},
		"unused, with a Lease later":             {second: Copy{"next", 1}, found: &none, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var found *Copy
			newer := false
			m := NewMark(Marked{
				Namespace: "orrery-system", Former: c.former, Now: func() Copy { return own },
				Assures: func() bool { return c.assures }, Proves: func() bool { return c.proves },
				Found: func(named Copy) { found = &named }, Newer: func(string) { newer = true },
			})
			for i, named := range []Copy{c.first, c.second} {
				if named != none {
					m.show(location, names(named, strconv.Itoa(i)))
				} else if i == 0 {
					m.show(location, nil)
				}
			}
			if newer != c.want {
				t.Errorf("the Lease is evidence against the store: %t", newer)
			}
			if (found == nil) != (c.found == nil) || found != nil && *found != *c.found {
				t.Errorf("the store keeps that it replaces %v, want %v", found, c.found)
			}
		})
	}
}

// markLeases answers writes of the Lease, each by the next function, and reads by nothing.
type markLeases struct {
	Leases
	writes atomic.Int64
	answer func(l *coordinationv1.Lease) error
}

func (f *markLeases) UpdateLease(_ context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	f.writes.Add(1)
	if err := f.answer(l); err != nil {
		return nil, err
	}
	l.ResourceVersion = "written"
	return l, nil
}

func newMarkOf(f *markLeases, now func() Copy) *Mark {
	return NewMark(Marked{
		Leases: f, Namespace: "orrery-system", Holder: "h", Now: now, Newer: func(string) {}, Found: func(Copy) {},
		May: func() bool { return true }, Sound: func() bool { return true }, Assures: func() bool { return true }, Proves: func() bool { return true },
		Log: slog.New(slog.DiscardHandler),
	})
}

// TestMarkTriesAgain fails the first writes of the Lease. The next ones come soon, and less often while the
// failure lasts.
func TestMarkTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends, moves atomic.Int64
		ends.Store(time.Now().Add(12 * time.Second).UnixNano())
		moves.Store(1)
		f := &markLeases{answer: func(*coordinationv1.Lease) error {
			if time.Now().UnixNano() < ends.Load() {
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}}
		m := newMarkOf(f, func() Copy { return Copy{"own", uint64(moves.Load())} })
		m.show(location, names(Copy{"former", 7}, "1"))
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		<-time.After(40 * time.Second)
		synctest.Wait()
		if next, _ := m.due(true); next != nil {
			t.Errorf("after %d writes %v is due", f.writes.Load(), next)
		}
		ends.Store(time.Now().Add(24 * time.Hour).UnixNano())
		before := f.writes.Load()
		moves.Store(2)
		<-time.After(23 * time.Hour)
		if n := f.writes.Load() - before; n < 1000 || n > 2500 {
			t.Errorf("%d writes that fail within a day", n)
		}
		cancel()
		synctest.Wait()
	})
}

// TestMarkRestsForAnOperator refuses the writes of the Lease, as where the agent lacks the right: an idle
// agent makes no request every few seconds.
func TestMarkRestsForAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &markLeases{answer: func(l *coordinationv1.Lease) error { return apierrors.NewForbidden(resource, l.Name, nil) }}
		m := newMarkOf(f, func() Copy { return Copy{"own", 1} })
		m.show(location, names(Copy{"former", 7}, "1"))
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		<-time.After(time.Hour)
		if n := f.writes.Load(); n < 6 || n > 7 {
			t.Errorf("%d writes within an hour", n)
		}
		cancel()
		synctest.Wait()
	})
}

// TestMarkKeepsTheNewest has the watch show that another agent has written the Lease while the answer
// to an own write is under way. The next write is due by that.
func TestMarkKeepsTheNewest(t *testing.T) {
	f := &markLeases{}
	m := newMarkOf(f, func() Copy { return Copy{"own", 1} })
	f.answer = func(*coordinationv1.Lease) error {
		m.show(location, names(Copy{"other", 1}, "3"))
		return nil
	}
	m.show(location, names(Copy{"former", 7}, "1"))
	if err := m.Write(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if next, from := m.due(true); next == nil || from.ResourceVersion != "3" {
		t.Errorf("what is due replaces %v", from)
	}
}

// TestMarkNamesTheStoreFirst has the Lease name a store whose agent has nothing recorded yet, if it
// named another one, so that a copy of that one is known to be older.
func TestMarkNamesTheStoreFirst(t *testing.T) {
	f := &markLeases{answer: func(*coordinationv1.Lease) error { return nil }}
	m := newMarkOf(f, func() Copy { return Copy{ID: "own"} })
	m.show("rome.0a1b2c3d", nil)
	due := func(claims bool) *coordinationv1.Lease {
		next, _ := m.due(claims)
		return next
	}
	if due(true) != nil {
		t.Error("a Lease is made for a store that has nothing")
	}
	m.show(location, names(Copy{"former", 7}, "1"))
	m.Proves = func() bool { return false }
	if due(true) != nil {
		t.Error("the Lease is taken without a session that proves the content")
	}
	m.Proves = func() bool { return true }
	if due(false) != nil {
		t.Error("the Lease is taken by an agent that does not act")
	}
	if next := due(true); next == nil || copyOf(next.Annotations) != (Copy{ID: "own"}) || next.ResourceVersion != "1" {
		t.Errorf("due is %v", next)
	}
}

// TestMarkCountsOn has an agent that no longer acts count on in its own Lease, as when a Job ends while the
// location is paused; but not if its store is an older copy.
func TestMarkCountsOn(t *testing.T) {
	m := newMarkOf(&markLeases{}, func() Copy { return Copy{"own", 3} })
	m.show(location, names(Copy{"own", 2}, "1"))
	if next, _ := m.due(false); next == nil || copyOf(next.Annotations).Moves != 3 {
		t.Errorf("due is %v", next)
	}
	m.Sound = func() bool { return false }
	if next, _ := m.due(true); next != nil {
		t.Errorf("an agent on an older copy writes %v", next)
	}
}
