package hubclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	keyA = "s/core/configmaps/n/a"
	keyB = "s/core/configmaps/n/b"
	keyC = "s/core/configmaps/n/c"
)

func TestSessionResumes(t *testing.T) {
	s, a, b := filled(t)
	a2, c := put(keyA, "1", "a2"), put(keyC, "1", "c")
	s.script("desired", answer{body: lines(
		hello(12, rootOf(a2, c), resumed), a2, c, del(keyB, wire.Deleted), mark(12, a2, c), wire.Frame{Ping: &wire.Ping{}}, bye,
	)})
	if err := s.once(); !errors.Is(err, errBye) {
		t.Fatal(err)
	}
	last := s.received[len(s.received)-1]
	if last.query.Get("after") != "10" || last.query.Get("marker") != "m" {
		t.Errorf("asked %v", last.query)
	}
	if got := s.content(); len(got) != 2 || got[keyA].Leaf.Digest != a2.Put.Digest || got[keyC].Leaf.Digest != c.Put.Digest {
		t.Errorf("content %v", got)
	}
	if m := s.meta(); m.Revision != 12 || m.Root != rootOf(a2, c) {
		t.Errorf("meta %+v", m)
	}
	_, _ = a, b
}

func TestSessionWalksWhatDiffers(t *testing.T) {
	s, a, b := filled(t)
	c := put(keyC, "1", "c")
	s.script("desired", answer{body: lines(hello(20, rootOf(a, c), nil)), hang: true})
	s.script("walk", paged(21, nil, a, c))
	s.script("fetch", fetched(21, "m", c))
	if err := s.once(); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	want := lines(wire.Walk{After: 10, Marker: "m"}, wire.Span{Sum: rootOf(a, b), Count: 2})
	if got := s.received[len(s.received)-2]; got.call != "walk" || got.body != want {
		t.Errorf("asked %s %s, want %s", got.call, got.body, want)
	}
	if got := s.received[len(s.received)-1]; got.call != "fetch" || got.body != lines(wire.Fetch{Key: keyC}) {
		t.Errorf("asked %s %s", got.call, got.body)
	}
	if got := s.content(); len(got) != 2 || s.meta().Revision != 21 {
		t.Errorf("content %v at %d", got, s.meta().Revision)
	}
	// A hello with the content hash of the store needs no comparison.
	s.script("desired", answer{body: lines(hello(30, rootOf(a, c), nil), bye)})
	if err := s.once(); !errors.Is(err, errBye) || s.meta().Revision != 30 {
		t.Errorf("at %d: %v", s.meta().Revision, err)
	}
}

func TestSessionWalksAfterAMarkThatDiffers(t *testing.T) {
	s, a, b := filled(t)
	c := put(keyC, "1", "c")
	s.script("desired", answer{body: lines(hello(12, rootOf(a, b, c), resumed), mark(12, a, b, c)), hang: true})
	s.script("walk", paged(12, nil, a, b, c))
	s.script("fetch", fetched(12, "m", c))
	if err := s.once(); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if s.meta().Revision != 12 || len(s.content()) != 3 {
		t.Errorf("meta %+v", s.meta())
	}
}

// Only a delete in a proven stream, or a complete comparison, removes an object.
func TestRemovalsThatAreNotBelieved(t *testing.T) {
	a, b := put(keyA, "1", "a"), put(keyB, "1", "b")
	none := wire.Sum{}
	c := put(keyC, "1", "c")
	walk := func(answers ...answer) []answer { return answers }
	differs := []answer{{body: lines(hello(11, none, nil)), hang: true}}
	for name, script := range map[string]map[string][]answer{
		"not found":              {"desired": {{status: http.StatusNotFound, body: "no such location"}}},
		"forbidden":              {"desired": {{status: http.StatusForbidden}}},
		"gone":                   {"desired": {{status: http.StatusGone}}},
		"an empty answer":        {"desired": {{}}},
		"no hello":               {"desired": {{body: lines(del(keyA, wire.Deleted))}}},
		"an ended stream":        {"desired": {{body: lines(hello(11, none, resumed))}}},
		"removed":                {"desired": {{body: lines(hello(11, none, resumed), wire.Frame{Bye: &wire.Bye{Reason: wire.ByeRemoved}})}}},
		"an unproven stream":     {"desired": {{body: lines(hello(11, none, unproven), del(keyA, wire.Deleted), mark(11), bye)}}, "walk": walk(paged(11, unproven))},
		"another location":       {"desired": {{body: lines(hello(11, none, newLocation), del(keyA, wire.Deleted), mark(11), bye)}}, "walk": walk(paged(11, newLocation))},
		"a walk without mark":    {"desired": differs, "walk": walk(cut(paged(11, nil)))},
		"a walk cut":             {"desired": differs, "walk": walk(answer{body: strings.TrimSuffix(paged(11, nil).body, "\"}}\n")})},
		"a walk that went back":  {"desired": differs, "walk": walk(paged(9, nil))},
		"a walk refused":         {"desired": differs, "walk": {{status: http.StatusNotFound}}},
		"a walk without lineage": {"desired": differs, "walk": walk(paged(11, unproven))},
		"a wrong walk":           {"desired": differs, "walk": walk(answer{body: lines(hello(11, rootOf(a), nil), wire.Frame{RangeDifference: &wire.RangeDifference{}}, mark(11, a))})},
		"a walk beside the point": {"desired": differs, "walk": walk(answer{body: lines(
			hello(11, none, nil), wire.Frame{RangeDifference: &wire.RangeDifference{From: keyA}}, mark(11))})},
		"a fetch refused":     {"desired": differs, "walk": walk(paged(11, nil, c)), "fetch": {{status: http.StatusServiceUnavailable}}},
		"a fetch cut":         {"desired": differs, "walk": walk(paged(11, nil, c)), "fetch": {cut(fetched(11, "m", del(keyC, wire.Walked)))}},
		"a fetch elsewhere":   {"desired": differs, "walk": walk(paged(11, nil, c)), "fetch": {fetched(12, "other", del(keyC, wire.Walked))}},
		"a fetch of the past": {"desired": differs, "walk": walk(paged(11, nil, c)), "fetch": {fetched(10, "m", del(keyC, wire.Walked))}},
		"a fetch of nothing":  {"desired": differs, "walk": walk(paged(11, nil, c)), "fetch": {fetched(11, "m")}},
		"a fetch of others":   {"desired": differs, "walk": walk(paged(11, nil, c)), "fetch": {fetched(11, "m", del(keyA, wire.Walked))}},
		"garbage":             {"desired": {{body: lines(hello(11, none, resumed)) + "]]]\n" + lines(del(keyA, wire.Deleted))}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := filled(t)
			for call, answers := range script {
				s.script(call, answers...)
			}
			if err := s.once(); err == nil {
				t.Error("the session ended without an error")
			}
			got := s.content()
			if len(got) != 2 || got[keyA].Leaf.Digest != a.Put.Digest || got[keyB].Leaf.Digest != b.Put.Digest {
				t.Errorf("content %v", got)
			}
			if m := s.meta(); m.Revision != 10 || m.Marker != "m" || m.LocationUID != "location-uid" {
				t.Errorf("meta %+v", m)
			}
		})
	}
}

// TestUnprovenLog checks that, with a log that does not continue the previous one, new objects are
// stored and changes are deferred, and that the deferral ends when the hub has the previous log again.
func TestUnprovenLog(t *testing.T) {
	s, a, b := filled(t)
	a2, c, d := put(keyA, "1", "a2"), put(keyC, "1", "c"), put("s/core/configmaps/n/d", "1", "d")
	s.script("desired", answer{body: lines(hello(5, rootOf(a2, c), unproven), d, del(keyB, wire.Deleted), mark(6, a2, c, d), bye)})
	s.script("walk", paged(5, unproven, a2, c))
	s.script("fetch", fetched(5, "other", a2, c))
	if err := s.once(); !errors.Is(err, errBye) {
		t.Fatal(err)
	}
	got := s.content()
	if len(got) != 4 || !got[keyA].Deferred || !got[keyB].Deferred || got[keyC].Deferred || got[keyA].Leaf.Digest != a.Put.Digest {
		t.Errorf("content %+v", got)
	}
	if m := s.meta(); m.Revision != 10 || m.Deferred != 2 || m.ReportsAgreed {
		t.Errorf("meta %+v", m)
	}
	// The hub has the previous log again: nothing changes.
	s.script("desired", answer{body: lines(hello(11, rootOf(a, b), nil)), hang: true})
	s.script("walk", paged(11, nil, a, b))
	if err := s.once(); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if m := s.meta(); m.Revision != 11 || m.Deferred != 0 || m.Count != 2 {
		t.Errorf("meta %+v", m)
	}
}

func TestStreamCutWithinAFrame(t *testing.T) {
	s, a, b := filled(t)
	c := put(keyC, "1", "c")
	whole := lines(c)
	s.script("desired", answer{body: lines(hello(12, rootOf(a, b, c), resumed), c) + whole[:len(whole)/2]})
	if err := s.once(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v", err)
	}
	index, err := s.session.Store.WantIndex()
	if err != nil {
		t.Fatal(err)
	}
	if m, all := s.meta(), index.Span("", ""); m.Revision != 10 || m.Root != all.Sum || m.Count != all.Count || all.Count != 3 {
		t.Errorf("meta %+v, counted %+v", m, all)
	}
}

// A malformed frame is skipped; all others are stored, and the bookmark shows the
// difference.
func TestNonsenseFrames(t *testing.T) {
	s, a, b := filled(t)
	c, forged := put(keyC, "1", "c"), put(keyA, "1", "a2")
	forged.Put.Digest = digest("something else")
	s.script("desired", answer{body: lines(
		hello(12, rootOf(a, b, c), resumed), forged, put("../etc/passwd", "1", "x"), put("s/core/configmaps/n/..", "1", "x"),
		json.RawMessage(`{"put":{"key":"s/core/configmaps/n/z","object":[]}}`), json.RawMessage(`{"newer":{"x":1}}`), c, mark(12, a, b, c), bye,
	)})
	if err := s.once(); !errors.Is(err, errBye) {
		t.Errorf("ended with %v", err)
	}
	if got := s.content(); len(got) != 3 || got[keyA].Leaf.Digest != a.Put.Digest || s.meta().Revision != 12 {
		t.Errorf("content %v", got)
	}
}

func TestSessionTellsWhatItTouched(t *testing.T) {
	s, _, _ := filled(t)
	if len(s.touched) != 2 || s.touched[0].Object != (key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "a"}}) {
		t.Errorf("touched %+v", s.touched)
	}
}

func TestReplacedSession(t *testing.T) {
	s, a, b := filled(t)
	s.script("desired", answer{body: lines(hello(10, rootOf(a, b), resumed), wire.Frame{Bye: &wire.Bye{Reason: wire.ByeReplaced}})})
	if err := s.once(); !errors.Is(err, errReplaced) {
		t.Errorf("ended with %v", err)
	}
}

func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		dog := newWatchdog(cancel)
		dog.every(wire.Settings{HeartbeatSeconds: 7})
		retry.Pause(ctx, 20*time.Second)
		dog.reset()
		<-ctx.Done()
		if d := time.Since(start); d != 41*time.Second {
			t.Errorf("ended after %s", d)
		}
	})
}

// TestPairOfAnEntry checks that an entry gets another log position only from frames that replace
// its object, or that make it desired again.
func TestPairOfAnEntry(t *testing.T) {
	withPosition := func(f wire.Frame, revision int64, marker string) wire.Frame {
		p := *f.Put
		p.Revision, p.Marker = revision, marker
		return wire.Frame{Put: &p}
	}
	policy := func(f wire.Frame) wire.Frame {
		p := *f.Put
		p.Policy.ReturnStatus = true
		return wire.Frame{Put: &p}
	}
	protect := func(f wire.Frame) wire.Frame {
		p := *f.Put
		p.Policy.Orphan = true
		return wire.Frame{Put: &p}
	}
	hold := wire.Frame{Hold: &wire.Hold{Key: keyA, UID: "1", Digest: digest("hold"), Error: "rule"}}
	conflict := wire.Frame{Conflict: &wire.Conflict{Key: keyA, UID: "1", Digest: digest("conflict"), Owner: "t/x"}}
	a := put(keyA, "1", "a")
	for name, c := range map[string]struct {
		between []wire.Frame
		next    wire.Frame
		want    ownership.Pair
	}{
		"the same":        {nil, withPosition(a, 9, "n"), ownership.NewPair("m", 5)},
		"another policy":  {nil, withPosition(policy(a), 9, "n"), ownership.NewPair("m", 5)},
		"protected":       {nil, withPosition(protect(a), 9, "n"), ownership.NewPair("n", 9)},
		"not any more":    {[]wire.Frame{withPosition(protect(a), 7, "n")}, withPosition(a, 9, "n"), ownership.NewPair("n", 7)},
		"held in between": {[]wire.Frame{hold}, withPosition(a, 9, "n"), ownership.NewPair("m", 5)},
		"edited":          {nil, withPosition(put(keyA, "1", "b"), 9, "n"), ownership.NewPair("n", 9)},
		"made anew":       {nil, withPosition(put(keyA, "2", "a"), 9, "n"), ownership.NewPair("n", 9)},
		"assigned anew":   {[]wire.Frame{del(keyA, wire.Unassigned)}, withPosition(a, 9, "n"), ownership.NewPair("n", 9)},
		"yielded":         {[]wire.Frame{conflict}, withPosition(a, 9, "n"), ownership.NewPair("n", 9)},
		"of an older hub": {nil, put(keyA, "1", "b"), ownership.Pair{}},
		"by the hello":    {nil, withPosition(put(keyA, "1", "b"), 9, ""), ownership.NewPair("m", 9)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t)
			frames := []any{hello(4, wire.Sum{}, nil), withPosition(a, 5, "")}
			for _, f := range append(c.between, c.next) {
				frames = append(frames, f)
			}
			s.script("desired", answer{body: lines(append(frames, bye)...)})
			if err := s.once(); err == nil {
				t.Fatal("the session goes on")
			}
			if got := s.content()[keyA].Leaf.Log; got != c.want {
				t.Errorf("the pair is %s, want %s", got, c.want)
			}
		})
	}
}
