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

// TestProver shows what the hub is asked, how often, and what its answers mean.
func TestProver(t *testing.T) {
	s := newScripted(t)
	p := NewProver(s.session.Link, func([]string) {})
	state := p.State
	at := func(marker string, revision int64) ownership.Proof {
		return p.Judge("core/configmaps/n/a", ownership.NewPair(marker, revision), time.Now())
	}
	ask := func(answers ...answer) {
		t.Helper()
		s.on("lineage", answers...)
		if err := p.inquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if at("m", 5) != ownership.Unasked {
		t.Error("without a session something is proven or not")
	}
	state.connected(true, "m", false)
	if p.Judge("x", ownership.Pair{}, time.Now()) != ownership.Missing {
		t.Error("an object without a pair is proven")
	}
	if at("m", 5) != ownership.Unasked || at("old", 5) != ownership.Unasked || at("foreign", 5) != ownership.Unasked {
		t.Error("something is known that was not asked")
	}
	ask(answer{body: lines(wire.LineageAnswer{Marker: "m", Revision: 20, Spans: map[string][]wire.Revisions{
		"m": {{First: 11, Last: 20}}, "old": {{First: 1, Last: 5}, {First: 7, Last: 8}},
	}})})
	for text, want := range map[string]ownership.Proof{
		"m.11": ownership.Given, "m.20": ownership.Given, "m.5": ownership.Missing, "old.5": ownership.Given, "old.6": ownership.Missing, "old.8": ownership.Given,
		"foreign.5": ownership.Missing, "m.21": ownership.Missing,
	} {
		if l := ownership.ParsePair(text); at(l.Marker(), l.Revision) != want {
			t.Errorf("%s: %d, want %d", text, at(l.Marker(), l.Revision), want)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("it was asked %d times", len(s.asked))
	}
	if p.Judge("y", ownership.NewPair("m", 21), time.Now().Add(2*askAgain)) != ownership.Unasked {
		t.Error("what the hub had not come to is not asked about again")
	}
	if state.accept(true); at("foreign", 5) != ownership.Given {
		t.Error("it is accepted, and not proven")
	}
	if state.accept(false); at("foreign", 5) != ownership.Missing {
		t.Error("it is not accepted any more, and proven")
	}
	state.ended(nil)
	if at("old", 5) != ownership.Unasked {
		t.Error("what one session was told counts without one")
	}
	state.connected(true, "m2", false)
	if at("old", 5) != ownership.Unasked {
		t.Error("what one session was told counts in another")
	}
	s.on("lineage", answer{body: lines(wire.LineageAnswer{Marker: "m3", Revision: 5, Spans: map[string][]wire.Revisions{"old": {{First: 1, Last: 5}}}})})
	if err := p.inquire(t.Context()); err == nil || at("old", 5) != ownership.Unasked {
		t.Errorf("the answer of another hub is believed: %v", err)
	}
	ask(answer{status: http.StatusNotFound})
	if at("old", 5) != ownership.Missing {
		t.Error("a hub that is older than the question proves something")
	}
}

// TestProverForgetsNobody begins sessions while objects are judged: whoever waits for a
// proof after that is either given another turn, or the hub is asked.
func TestProverForgetsNobody(t *testing.T) {
	p := NewProver(newScripted(t).session.Link, func([]string) {})
	for range 3000 {
		var judging sync.WaitGroup
		for i := range 64 {
			judging.Go(func() {
				p.Judge(fmt.Sprint(i), ownership.NewPair("m", 5), time.Now())
			})
		}
		runtime.Gosched()
		p.State.connected(true, "m", false)
		p.Again()
		judging.Wait()
		p.mu.Lock()
		p.turn()
		waiting, asked := len(p.waiting), len(p.ask)
		p.mu.Unlock()
		if waiting > 0 && asked == 0 {
			t.Fatalf("%d wait for what nobody asks", waiting)
		}
	}
}

// TestProverIsBounded has a target full of forged markers.
func TestProverIsBounded(t *testing.T) {
	s := newScripted(t)
	p := NewProver(s.session.Link, func([]string) {})
	p.State.connected(true, "m", false)
	for i := range maxLogs + 10 {
		want := ownership.Unasked
		if i >= maxLogs {
			want = ownership.Missing
		}
		if got := p.Judge("x", ownership.NewPair(fmt.Sprint("made", i), 1), now); got != want {
			t.Fatalf("marker %d: %d", i, got)
		}
	}
	for range maxLogs/(wire.MaxMarkers-1) + 1 {
		s.on("lineage", answer{body: lines(wire.LineageAnswer{Spans: map[string][]wire.Revisions{"m": {{First: 1, Last: 9}}}})})
	}
	if err := p.inquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.asked); n > maxLogs/(wire.MaxMarkers-1)+1 {
		t.Errorf("%d requests", n)
	}
}
