package presence

import (
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestGone: the time since which agents are gone is known if their Locations exist, for any order
// of events.
func TestGone(t *testing.T) {
	now := time.Unix(1e9, 0)
	index := NewIndex(func() time.Time { return now })
	rows := table.New(table.Config{WindowSteps: 1000, WindowBytes: 1 << 20, Observer: index})
	change := func(changes ...table.Update) {
		t.Helper()
		rev := rows.Rev() + 1
		for i := range changes {
			changes[i].CreateRev, changes[i].ModRev = rev, rev
		}
		if err := rows.Apply(rev, changes); err != nil {
			t.Fatal(err)
		}
	}
	there := func(k string) table.Update { return table.Update{Key: k, Value: []byte(`{}`)} }
	gone := func(k string) table.Update { return table.Update{Key: k} }
	is := func(s key.Session, since time.Time) {
		t.Helper()
		if got := index.Gone(s); !got.Equal(since) {
			t.Errorf("%v is gone since %v, want %v", s, got, since)
		}
	}
	rows.Reset(1, nil)

	stays := key.WholeOf("stays")
	change(there(stays.Location.Key()), there(stays.Key()))
	change(gone(stays.Key()))
	is(stays, now)
	for i := range 1000 {
		s := key.WholeOf(key.Location(fmt.Sprint("l", i)))
		change(there(s.Location.Key()), there(s.Key()))
		switch i % 3 {
		case 0: // the Location is deleted last
			change(gone(s.Key()))
			is(s, now)
			change(gone(s.Location.Key()))
		case 1: // the session ends last
			change(gone(s.Location.Key()))
			change(gone(s.Key()))
		case 2:
			change(gone(s.Location.Key()), gone(s.Key()))
		}
		is(s, time.Time{})
	}
	if len(index.gone) != 1 || len(index.located) != 1 || len(index.open) != 0 {
		t.Errorf("of one agent and its Location are kept %v, %v, %v", index.gone, index.located, index.open)
	}

	// Keys that are missing after the table was reloaded were deleted in the meantime.
	ends, lost := key.WholeOf("ends"), key.WholeOf("lost")
	change(there(ends.Location.Key()), there(ends.Key()), there(lost.Location.Key()), there(lost.Key()))
	before := now
	now = now.Add(time.Hour)
	left := []table.Update{there(stays.Location.Key()), there(ends.Location.Key())}
	for i := range left {
		left[i].CreateRev, left[i].ModRev = 1, 1
	}
	rows.Reset(rows.Rev()+1, left)
	is(stays, before)
	is(ends, now)
	is(lost, time.Time{})
	if len(index.gone) != 2 || len(index.located) != 2 {
		t.Errorf("of two Locations are kept %v, %v", index.gone, index.located)
	}
}
