package presence

import (
	"log/slog"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestNewer: hubs with newer schemas count while they run, the newest first. Older hubs, and hubs
// without schema versions, never count. A reloaded table starts from nothing.
func TestNewer(t *testing.T) {
	newer := NewNewer(5, slog.New(slog.NewTextHandler(t.Output(), nil)))
	rows := table.New(table.Config{WindowSteps: 1000, WindowBytes: 1 << 20, Observer: newer})
	rows.Reset(1, nil)
	hub := func(id, value string) {
		t.Helper()
		rev := rows.Rev() + 1
		u := table.Update{Key: key.Hub(id), CreateRev: rev, ModRev: rev}
		if value != "" {
			u.Value = []byte(value)
		}
		if err := rows.Apply(rev, []table.Update{u}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(url, kind string) {
		t.Helper()
		h, ok := newer.Knowing(kind)
		if h.URL != url || ok != (url != "") {
			t.Errorf("%q knows more of %s, want %q", h.URL, kind, url)
		}
	}
	live := func(want bool) <-chan struct{} {
		t.Helper()
		lives, changed := newer.Live()
		if lives != want {
			t.Errorf("a newer hub lives: %v", lives)
		}
		return changed
	}
	closed := func(c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		default:
			t.Error("no waiter was notified")
		}
	}
	none := live(false)
	hub("OLD", `{"url":"old"}`)
	hub("SAME", `{"url":"same","schema":5,"kinds":{"a":5}}`)
	hub("BROKEN", `{`)
	live(false)
	is("", "a")
	hub("NEW", `{"url":"new","schema":6,"kinds":{"a":6,"b":4}}`)
	closed(none)
	some := live(true)
	is("new", "a")
	is("", "b")
	is("", "c")
	hub("NEWEST", `{"url":"newest","schema":7,"kinds":{"a":7,"c":7}}`)
	is("newest", "a")
	hub("NEWEST", "")
	is("new", "a")
	live(true)
	hub("NEW", `{"url":"new","schema":5}`)
	closed(some)
	live(false)
	hub("NEW", `{"url":"new","schema":6,"kinds":{"a":6}}`)
	some = live(true)
	rows.Reset(rows.Rev()+1, nil)
	closed(some)
	is("", "a")
}
