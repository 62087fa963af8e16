package fencing

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

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
	own, former := Copy{"own", 5}, Copy{"former", 7}
	for name, c := range map[string]struct {
		first, second Copy // what the Lease names; without an ID: there is none
		empty, proves bool
		former        Copy
		want          bool
	}{
		"no Lease":                              {},
		"its own state":                         {first: own},
		"an older state of its own":             {first: Copy{"own", 4}},
		"a newer state of its own":              {first: Copy{"own", 6}, want: true},
		"a newer state of its own, later":       {first: own, second: Copy{"own", 6}, want: true},
		"another store":                         {first: former, want: true},
		"another store, in a session":           {first: former, proves: true},
		"the store that it replaces":            {first: former, former: former},
		"the store that it replaces, acting":    {first: Copy{"former", 8}, former: former, want: true},
		"one that has replaced it":              {first: Copy{"next", 1}, former: former, want: true},
		"a Lease where there was none":          {second: former, want: true},
		"another store, to an empty one":        {first: former, empty: true},
		"the same later, to an empty one":       {first: former, second: former, empty: true},
		"a newer state of its own, to an empty": {first: Copy{"own", 6}, empty: true, want: true},
		"a second store, to an empty one":       {first: former, second: Copy{"next", 1}, empty: true, want: true},
		"a Lease later, to an empty one":        {second: Copy{"next", 1}, empty: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			found, newer := Copy{}, false
			m := NewMark(Marked{
				Namespace: "orrery-system", Empty: c.empty, Former: c.former,
				Now: func() Copy { return own }, Proves: func() bool { return c.proves },
				Found: func(named Copy) { found = named }, Newer: func(string) { newer = true },
			})
			for i, named := range []Copy{c.first, c.second} {
				if named.ID != "" {
					m.show(location, names(named, strconv.Itoa(i)))
				} else if i == 0 {
					m.show(location, nil)
				}
			}
			if newer != c.want {
				t.Errorf("the Lease is evidence against the store: %t", newer)
			}
			if c.empty && c.first.ID == former.ID && found != c.first {
				t.Errorf("the store keeps that it replaces %v", found)
			}
		})
	}
}

// markLeases answers writes of the Lease, each by the next function, and reads by nothing.
type markLeases struct {
	Leases
	writes int
	answer func(l *coordinationv1.Lease) error
}

func (f *markLeases) UpdateLease(_ context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	f.writes++
	if err := f.answer(l); err != nil {
		return nil, err
	}
	l.ResourceVersion = "written"
	return l, nil
}

func newMarkOf(f *markLeases, now func() Copy) *Mark {
	return NewMark(Marked{
		Leases: f, Namespace: "orrery-system", Holder: "h", Now: now, Newer: func(string) {}, Found: func(Copy) {},
		May: func() bool { return true }, Proves: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
	})
}

// TestMarkTriesAgain fails the first writes of the Lease. The next ones come soon, and more and more
// seldom while the failure lasts.
func TestMarkTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := time.Now().Add(12 * time.Second)
		f := &markLeases{answer: func(*coordinationv1.Lease) error {
			if time.Now().Before(ends) {
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}}
		m := newMarkOf(f, func() Copy { return Copy{"own", 1} })
		m.show(location, names(Copy{"former", 7}, "1"))
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		<-time.After(40 * time.Second)
		if got := copyOf(m.lease.Annotations); got.ID != "own" {
			t.Errorf("after %d writes the Lease names %v", f.writes, got)
		}
		ends = time.Now().Add(24 * time.Hour)
		before := f.writes
		m.Now = func() Copy { return Copy{"own", 2} }
		<-time.After(23 * time.Hour)
		if n := f.writes - before; n < 100 || n > 250 {
			t.Errorf("%d writes that fail within a day", n)
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
	if err := m.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next, from := m.due(); next == nil || from.ResourceVersion != "3" {
		t.Errorf("what is due replaces %v", from)
	}
}

// TestMarkNamesTheStoreFirst has the Lease name a store whose agent has nothing recorded yet, if it
// named another one, so that a copy of that one is known to be older.
func TestMarkNamesTheStoreFirst(t *testing.T) {
	f := &markLeases{answer: func(*coordinationv1.Lease) error { return nil }}
	m := newMarkOf(f, func() Copy { return Copy{ID: "own"} })
	m.show(location, nil)
	if next, _ := m.due(); next != nil {
		t.Error("a Lease is made for a store that has nothing")
	}
	m.show(location, names(Copy{"former", 7}, "1"))
	m.Proves = func() bool { return false }
	if next, _ := m.due(); next != nil {
		t.Error("the Lease is taken without a session that proves the content")
	}
	m.Proves = func() bool { return true }
	if next, _ := m.due(); next == nil || copyOf(next.Annotations) != (Copy{ID: "own"}) || next.ResourceVersion != "1" {
		t.Errorf("due is %v", next)
	}
}
