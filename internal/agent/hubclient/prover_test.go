package hubclient

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestProver checks which queries the hub receives, how often, and how the responses are used.
func TestProver(t *testing.T) {
	s := newScripted(t)
	p := NewProver(s.session.Link, func([]string) {})
	state := p.State
	check := func(marker string, revision int64) ownership.Proof {
		return p.Check("core/configmaps/n/a", ownership.NewPair(marker, revision), time.Now())
	}
	inquire := func(answers ...answer) {
		t.Helper()
		s.script("lineage", answers...)
		if err := p.inquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if check("m", 5) != ownership.Unasked {
		t.Error("without a session the result is not Unasked")
	}
	state.connected(true, "m", false)
	if p.Check("x", ownership.Pair{}, time.Now()) != ownership.Missing {
		t.Error("an object without a log position is not Missing")
	}
	if check("m", 5) != ownership.Unasked || check("old", 5) != ownership.Unasked || check("foreign", 5) != ownership.Unasked {
		t.Error("a log position has a result before the query")
	}
	inquire(answer{body: lines(wire.LogIdentityResponse{Marker: "m", Revision: 20, Spans: map[string][]wire.Revisions{
		"m": {{First: 11, Last: 20}}, "old": {{First: 1, Last: 5}, {First: 7, Last: 8}},
	}})})
	for text, want := range map[string]ownership.Proof{
		"m.11": ownership.Given, "m.20": ownership.Given, "m.5": ownership.Missing, "old.5": ownership.Given, "old.6": ownership.Missing, "old.8": ownership.Given,
		"foreign.5": ownership.Missing, "m.21": ownership.Missing,
	} {
		if l := ownership.ParsePair(text); check(l.Marker(), l.Revision) != want {
			t.Errorf("%s: %d, want %d", text, check(l.Marker(), l.Revision), want)
		}
	}
	if len(s.received) != 1 {
		t.Errorf("the hub received %d queries, want 1", len(s.received))
	}
	if p.Check("y", ownership.NewPair("m", 21), time.Now().Add(2*repeatAfter)) != ownership.Unasked {
		t.Error("what the hub had not come to is not asked about again")
	}
	if state.accept(true); check("foreign", 5) != ownership.Given {
		t.Error("it is accepted, and not proven")
	}
	if state.accept(false); check("foreign", 5) != ownership.Missing {
		t.Error("it is not accepted any more, and proven")
	}
	state.ended(nil)
	if check("old", 5) != ownership.Unasked {
		t.Error("what one session was told counts without one")
	}
	state.connected(true, "m2", false)
	if check("old", 5) != ownership.Unasked {
		t.Error("what one session was told counts in another")
	}
	s.script("lineage", answer{body: lines(wire.LogIdentityResponse{Marker: "m3", Revision: 5, Spans: map[string][]wire.Revisions{"old": {{First: 1, Last: 5}}}})})
	if err := p.inquire(t.Context()); err == nil || check("old", 5) != ownership.Unasked {
		t.Errorf("the answer of another hub is believed: %v", err)
	}
	inquire(answer{status: http.StatusNotFound})
	if check("old", 5) != ownership.Missing {
		t.Error("a hub of an older version, without the query, has proven a log position")
	}
}

// TestProverForgetsNoObject opens sessions while objects are checked. Afterwards each waiting
// object is either enqueued, or a query is pending.
func TestProverForgetsNoObject(t *testing.T) {
	p := NewProver(newScripted(t).session.Link, func([]string) {})
	for range 3000 {
		var checks sync.WaitGroup
		for i := range 64 {
			checks.Go(func() {
				p.Check(fmt.Sprint(i), ownership.NewPair("m", 5), time.Now())
			})
		}
		runtime.Gosched()
		p.State.connected(true, "m", false)
		p.Again()
		checks.Wait()
		p.mu.Lock()
		p.turn()
		waiting, pending := len(p.waiting), len(p.pending)
		p.mu.Unlock()
		if waiting > 0 && pending == 0 {
			t.Fatalf("%d objects wait, and no query is pending", waiting)
		}
	}
}

// TestProverIsBounded checks objects with more forged markers than the limit.
func TestProverIsBounded(t *testing.T) {
	s := newScripted(t)
	p := NewProver(s.session.Link, func([]string) {})
	p.State.connected(true, "m", false)
	for i := range maxLogs + 10 {
		want := ownership.Unasked
		if i >= maxLogs {
			want = ownership.Missing
		}
		if got := p.Check("x", ownership.NewPair(fmt.Sprint("made", i), 1), now); got != want {
			t.Fatalf("the result for marker %d is %d, want %d", i, got, want)
		}
	}
	for range maxLogs/(wire.MaxMarkers-1) + 1 {
		s.script("lineage", answer{body: lines(wire.LogIdentityResponse{Spans: map[string][]wire.Revisions{"m": {{First: 1, Last: 9}}}})})
	}
	if err := p.inquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.received); n > maxLogs/(wire.MaxMarkers-1)+1 {
		t.Errorf("%d requests", n)
	}
}
