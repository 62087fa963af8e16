package mapper

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

// TestDecideByProof shows what is done about an object that nothing is recorded of.
func TestDecideByProof(t *testing.T) {
	here := observed{presence: present, uid: "u1", log: marks.NewPair("m", 1)}
	foreign := observed{presence: foreign, uid: "u1", log: marks.NewPair("m", 1)}
	with := func(p wire.Policy) *want { return treated("a", p) }
	for name, c := range map[string]struct {
		facts facts
		given action
	}{
		"desired":      {facts: facts{want: putWant("u", "a"), seen: here}, given: doApply},
		"createOnly":   {facts: facts{want: with(wire.Policy{CreateOnly: true}), seen: here}, given: doNote},
		"reportDrift":  {facts: facts{want: with(wire.Policy{ReportDrift: true}), seen: here, reported: true}, given: doInspect},
		"ran to end":   {facts: facts{want: putWant("u", "a"), seen: here, completed: "Complete"}, given: doApply},
		"a stray":      {facts: facts{seen: here, settled: true}, given: doClaim},
		"adopted":      {facts: facts{want: with(wire.Policy{Adopt: true}), seen: foreign}, given: doApply},
		"adopted once": {facts: facts{want: with(wire.Policy{Adopt: true, CreateOnly: true}), seen: foreign}, given: doMark},
	} {
		for p, do := range map[proof]action{proofUnneeded: c.given, proofGiven: c.given, proofUnasked: doNothing, proofMissing: doNothing} {
			f := c.facts
			f.proof = p
			d := decide(f)
			if d.do != do || p.waits() != (d.proof == p && d.proof != proofUnneeded) || (p == proofMissing) != (d.reason == v1alpha1.ReasonLineageUnproven) {
				t.Errorf("%s, proof %d: %+v", name, p, d)
			}
		}
	}
	absent := facts{want: putWant("u", "a"), seen: observed{presence: absent}, proof: proofMissing}
	if d := decide(absent); d.do != doApply || d.uid != "" {
		t.Errorf("what is absent is not made: %+v", d)
	}
}

// TestProver shows what the hub is asked, how often, and what is made of its answers.
func TestProver(t *testing.T) {
	s := newScripted(t)
	e := newEngine()
	e.kindsChanged = func() {}
	state := &progress{opened: func() {}, turned: func() {}}
	p := &prover{hub: s.session.hub, engine: e, log: quiet, state: state, wake: make(chan struct{}, 1)}
	at := func(marker string, revision int64) proof {
		return p.judge("core/configmaps/n/a", marks.NewPair(marker, revision), time.Now())
	}
	ask := func(answers ...answer) {
		t.Helper()
		s.on("lineage", answers...)
		if err := p.inquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if at("m", 5) != proofUnasked {
		t.Error("without a session something is proven or not")
	}
	state.connected(true, "m", false)
	if p.judge("x", marks.Pair{}, time.Now()) != proofMissing {
		t.Error("an object without a pair is proven")
	}
	if at("m", 5) != proofUnasked || at("old", 5) != proofUnasked || at("foreign", 5) != proofUnasked {
		t.Error("something is known that was not asked")
	}
	ask(answer{body: lines(wire.LineageAnswer{Marker: "m", Revision: 20, Spans: map[string][]wire.Revisions{
		"m": {{First: 11, Last: 20}}, "old": {{First: 1, Last: 5}, {First: 7, Last: 8}},
	}})})
	for text, want := range map[string]proof{
		"m.11": proofGiven, "m.20": proofGiven, "m.5": proofMissing, "old.5": proofGiven, "old.6": proofMissing, "old.8": proofGiven,
		"foreign.5": proofMissing, "m.21": proofMissing,
	} {
		if l := marks.ParsePair(text); at(l.Marker(), l.Revision) != want {
			t.Errorf("%s: %d, want %d", text, at(l.Marker(), l.Revision), want)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("it was asked %d times", len(s.asked))
	}
	if p.judge("y", marks.NewPair("m", 21), time.Now().Add(2*askAgain)) != proofUnasked {
		t.Error("what the hub had not come to is not asked about again")
	}
	if state.accept(true); at("foreign", 5) != proofGiven {
		t.Error("it is accepted, and not proven")
	}
	if state.accept(false); at("foreign", 5) != proofMissing {
		t.Error("it is not accepted any more, and proven")
	}
	state.ended(nil)
	if at("old", 5) != proofUnasked {
		t.Error("what one session was told counts without one")
	}
	state.connected(true, "m2", false)
	if at("old", 5) != proofUnasked {
		t.Error("what one session was told counts in another")
	}
	s.on("lineage", answer{body: lines(wire.LineageAnswer{Marker: "m3", Revision: 5, Spans: map[string][]wire.Revisions{"old": {{First: 1, Last: 5}}}})})
	if err := p.inquire(t.Context()); err == nil || at("old", 5) != proofUnasked {
		t.Errorf("the answer of another hub is believed: %v", err)
	}
	ask(answer{status: http.StatusNotFound})
	if at("old", 5) != proofMissing {
		t.Error("a hub that is older than the question proves something")
	}
}

// TestProverIsBounded has a target full of markers that somebody made up.
func TestProverIsBounded(t *testing.T) {
	s := newScripted(t)
	state := &progress{opened: func() {}, turned: func() {}}
	p := &prover{hub: s.session.hub, engine: newEngine(), log: quiet, state: state, wake: make(chan struct{}, 1)}
	state.connected(true, "m", false)
	for i := range maxLogs + 10 {
		want := proofUnasked
		if i >= maxLogs {
			want = proofMissing
		}
		if got := p.judge("x", marks.NewPair(fmt.Sprint("made", i), 1), now); got != want {
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

// TestProofsAreCounted shows that an item counts as long as it waits.
func TestProofsAreCounted(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	it := e.loadItem(key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")})
	e.queue.push(it)
	e.queue.pop((*kind).mayRun)
	for _, c := range []struct {
		result result
		want   int
	}{
		{result{wanted: true, proof: proofMissing}, 1},
		{result{wanted: true, failed: true}, 1},
		{result{wanted: true, proof: proofMissing}, 1},
		{result{wanted: true, proof: proofGiven}, 0},
		{result{wanted: true, proof: proofMissing}, 1},
		{result{forget: true, gone: []key.Space{"s"}, proof: proofMissing}, 0},
	} {
		it.queue = running
		it.kind.running++
		if e.finish(it, c.result); e.proofs[proofMissing] != c.want {
			t.Errorf("after %+v %d wait, want %d", c.result, e.proofs[proofMissing], c.want)
		}
	}
}
