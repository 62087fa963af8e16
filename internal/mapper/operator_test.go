package mapper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// placementOf is the Placement that let go of an object of guardThem.
func placementOf(i int) string { return []string{"p", "p", "q", "", "q"}[i] }

// guardThem records objects of two spaces, of several Placements, and has their
// removals wait.
func guardThem(t *testing.T, s *store) {
	t.Helper()
	if err := s.write(t.Context(), func(x *tx) error {
		x.meta.Fresh = false
		for i := range 5 {
			id, space := fmt.Sprintf("core/configmaps/n/o%d", i), key.Space("s")
			if i > 2 {
				space = "z"
			}
			if err := errors.Join(x.setRecord(id, &record{Space: space, UID: fmt.Sprint("u", i)}), x.guard(id, wire.Unassigned, placementOf(i))); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func pendingOf(t *testing.T, s *store) (p *wire.PruneStatus) {
	t.Helper()
	if err := s.view(func(x *tx) (err error) {
		p, err = x.pending()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGuardedAndContested shows that what waits to go goes on to wait when another
// space yields it, or when it cannot be said what it should be, and not when it is
// desired again.
func TestGuardedAndContested(t *testing.T) {
	for name, c := range map[string]struct {
		f     wire.Frame
		waits bool
	}{
		"yielded":  {wire.Frame{Conflict: &wire.Conflict{Key: "t/core/configmaps/n/a", UID: "1", Digest: digest("conflict"), Owner: keyA}}, true},
		"held":     {wire.Frame{Hold: &wire.Hold{Key: keyA, UID: "1", Digest: digest("hold"), Error: "rule"}}, true},
		"desired":  {put(keyA, "1", "a"), false},
		"taken":    {put("t/core/configmaps/n/a", "1", "a"), false},
		"unasked":  {del("t/core/configmaps/n/a", wire.Deleted), true},
		"an older": {del(keyA, wire.Deleted), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t)
			id := "core/configmaps/n/a"
			if err := s.session.store.write(t.Context(), func(x *tx) error {
				x.meta.Fresh = false
				return errors.Join(x.setRecord(id, &record{Space: "s", UID: "u"}), x.guard(id, wire.Unassigned, "p"))
			}); err != nil {
				t.Fatal(err)
			}
			s.on("desired", answer{body: lines(hello(4, wire.Sum{}, nil), c.f, bye)})
			if err := s.once(); err == nil {
				t.Fatal("the session goes on")
			}
			if waits := pendingOf(t, s.session.store) != nil; waits != c.waits {
				t.Errorf("it waits: %v", waits)
			}
		})
	}
}

// TestConfirm shows what a confirmation lets go: exactly what its digest names.
func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		name    string
		confirm func(*wire.PruneStatus) wire.Settings
		left    int
	}{
		{"another digest", func(*wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: strings.Repeat("0", pruneDigest)}, {}}}
		}, 5},
		{"all", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: p.Digest}}}
		}, 0},
		{"those of one space, by an operator", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: p.Spaces[0].Digest}}}
		}, 2},
		{"those of one space, by its owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "z", Digest: p.Spaces[1].Digest}}}
		}, 3},
		{"those of another space, by an owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "z", Digest: p.Spaces[0].Digest}, {Space: "z", Digest: p.Digest}}}
		}, 5},
		{"those of one Placement, by an operator", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: p.Placements[0].Digest}}}
		}, 3},
		{"those of two Placements, by their owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "s", Digest: p.Placements[0].Digest}, {Space: "s", Digest: p.Placements[1].Digest}}}
		}, 2},
		{"those of another space's Placement of the name, by an owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "s", Digest: p.Placements[3].Digest}, {Space: "s", Digest: p.Placements[2].Digest}}}
		}, 5},
		{"those of which no Placement is known", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "z", Digest: p.Placements[2].Digest}}}
		}, 4},
		{"a purge", func(*wire.PruneStatus) wire.Settings { return wire.Settings{Purge: true} }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScripted(t)
			guardThem(t, s.session.store)
			before := pendingOf(t, s.session.store)
			if before.Pending != 5 || len(before.Spaces) != 2 || len(before.Placements) != 4 || before.Placements[2].Placement != "" || before.Objects[0] != "s/core/configmaps/n/o0" {
				t.Fatalf("pending %+v", before)
			}
			settings := c.confirm(before)
			s.on("desired", answer{body: lines(hello(1, wire.Sum{}, nil), wire.Frame{Settings: &settings}, bye)})
			s.on("reports/walk", answer{body: lines(hello(1, wire.Sum{}, nil), mark(1))})
			if err := s.once(); !errors.Is(err, errBye) {
				t.Fatal(err)
			}
			left, touched := 0, 0
			if p := pendingOf(t, s.session.store); p != nil {
				left = p.Pending
			}
			for _, o := range s.touched {
				if o.want != nil || o.object.Space == "" {
					t.Errorf("touched %+v", o)
				}
				touched++
			}
			if left != c.left || touched != 5-c.left {
				t.Errorf("%d are left and %d touched, want %d left", left, touched, c.left)
			}
		})
	}
}

// TestGuardSums shows that the digests of what waits are a function of that alone,
// and that few groups are told apart however many there are.
func TestGuardSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, sums := map[string]guardedRemoval{}, guardSums{}
		for _, id := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"})).Draw(t, "ids") {
			before, copied := sums, maps.Clone(sums)
			if g, ok := have[id]; ok {
				now := sums[g.group()]
				sums = sums.with(g.group(), guardSum{now.Count - 1, now.Sum.Sub(g.sum(id))})
				delete(have, id)
			} else {
				g := guardedRemoval{
					Space:     rapid.SampledFrom([]key.Space{"s", "z"}).Draw(t, "space"),
					Placement: rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "placement"),
					UID:       rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"),
				}
				sums = sums.with(g.group(), sums[g.group()].add(guardSum{1, g.sum(id)}))
				have[id] = g
			}
			if !maps.Equal(before, copied) {
				t.Fatal("what a copy of meta shares was changed")
			}
		}
		anew, spaces := guardSums{}, map[string]guardSum{}
		for _, id := range slices.Sorted(maps.Keys(have)) {
			g := have[id]
			one := guardSum{1, g.sum(id)}
			anew = anew.with(g.group(), anew[g.group()].add(one))
			spaces[string(g.Space)] = spaces[string(g.Space)].add(one)
		}
		if !maps.Equal(anew, sums) || !maps.Equal(spaces, sums.bySpace()) {
			t.Fatalf("%v, counted anew %v", sums, anew)
		}
	})
}

// TestConfirmTheOnlyGroup shows that the owner is heard also where the digests of the
// Placement, the space and the location are one.
func TestConfirmTheOnlyGroup(t *testing.T) {
	sums := guardSums{"s/p": {1, wire.SumOf([]byte("x"))}}
	digest := sums.total().digest()
	for space, want := range map[string]bool{"": true, "s": true, "z": false, "s/p": false} {
		if got := sums.free(wire.Settings{Confirm: []wire.Confirmation{{Space: space, Digest: digest}}})["s/p"]; got != want {
			t.Errorf("confirmed in space %q: %v", space, got)
		}
	}
}

// TestGuardGroups shows that few groups are told apart, however many Placements let
// go, and that what waited in a store of older agents goes on waiting.
func TestGuardGroups(t *testing.T) {
	s := newScripted(t).session.store
	if err := s.write(t.Context(), func(x *tx) error {
		for i := range 3 * maxGroups {
			id := fmt.Sprintf("core/configmaps/n/o%d", i)
			if err := errors.Join(x.setRecord(id, &record{Space: "s", UID: fmt.Sprint("u", i)}), x.guard(id, wire.Unassigned, fmt.Sprint("p", i))); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p := pendingOf(t, s)
	if n := len(p.Placements); p.Pending != 3*maxGroups || n != maxGroups+1 || p.Placements[0].Placement != "" || p.Placements[0].Pending != 2*maxGroups {
		t.Errorf("%d groups, %d removals: %+v", n, p.Pending, p.Placements[0])
	}
	var meta meta
	if err := json.Unmarshal([]byte(`{"guarded":{"s":{"count":2,"sum":"`+p.Digest+strings.Repeat("0", 48)+`"}}}`), &meta); err != nil {
		t.Fatal(err)
	}
	if of := meta.Guarded.bySpace()["s"]; of.Count != 2 || of.digest() != p.Digest {
		t.Errorf("as older agents have it: %+v", meta.Guarded)
	}
}

// TestAccept shows that a log is accepted by the marker of its hello, in the
// hello and later, and by nothing else.
func TestAccept(t *testing.T) {
	accepting := func(marker string) func(*wire.Hello) {
		return func(h *wire.Hello) {
			unproven(h)
			h.Settings.Accept = marker
		}
	}
	for _, c := range []struct {
		name     string
		hello    func(*wire.Hello)
		settings *wire.Settings
		want     error
	}{
		{"by the hello", accepting("other"), nil, errAccepted},
		{"later", unproven, &wire.Settings{Accept: "other"}, errAccepted},
		{"another log", accepting("foreign"), &wire.Settings{Accept: "m"}, errBye},
		{"none", unproven, &wire.Settings{}, errBye},
		{"a location made again", func(h *wire.Hello) { newLocation(h); h.Settings.Accept = h.Marker }, nil, errAccepted},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, a, b := filled(t)
			frames := []any{hello(5, rootOf(a), c.hello)}
			if c.settings != nil {
				frames = append(frames, wire.Frame{Settings: c.settings})
			}
			s.on("desired", answer{body: lines(append(frames, bye)...)})
			s.on("walk", paged(5, c.hello, a))
			if err := s.once(); !errors.Is(err, c.want) {
				t.Fatalf("ended with %v", err)
			}
			m, sent := s.meta(), hello(5, rootOf(a), c.hello).Hello
			if accepted := m.Revision == 5 && m.Marker == sent.Marker && m.LocationUID == sent.UID && !m.ReportsAgreed; accepted != errors.Is(c.want, errAccepted) {
				t.Errorf("meta %+v", m)
			}
			if got := s.content(); len(got) != 2 || got[keyB].Leaf.Digest != b.Put.Digest {
				t.Errorf("accepting alone changed the content: %v", got)
			}
		})
	}
}

// TestAcceptedLogIsTakenOver shows that after an acceptance the hub's content is
// compared and taken over, what goes included.
func TestAcceptedLogIsTakenOver(t *testing.T) {
	s, a, _ := filled(t)
	accept := func(h *wire.Hello) { unproven(h); h.Settings.Accept = "other" }
	s.on("desired", answer{body: lines(hello(5, rootOf(a), accept))})
	if err := s.once(); !errors.Is(err, errAccepted) {
		t.Fatal(err)
	}
	another := func(h *wire.Hello) { h.Marker = "other" }
	s.on("desired", answer{body: lines(hello(5, rootOf(a), another)), hang: true})
	s.on("walk", paged(5, another, a))
	if err := s.once(); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	last := s.asked[slices.IndexFunc(s.asked, func(q asked) bool { return q.query.Get("after") == "5" })]
	if last.query.Get("marker") != "other" {
		t.Errorf("asked %v", last.query)
	}
	if got := s.content(); len(got) != 1 || got[keyA].Leaf.Digest != a.Put.Digest {
		t.Errorf("content %v", got)
	}
}

// TestAnnounce shows what is sent, and when nothing is.
func TestAnnounce(t *testing.T) {
	s := newScripted(t)
	now := wire.AgentStatus{Version: "v", Lineage: wire.Proven}
	a := &announcer{
		hub: s.session.hub, log: quiet, compose: func() (wire.AgentStatus, error) { return now, nil },
		kubernetes: "k", apisDigest: "d", apis: []wire.API{{GroupVersion: "v1"}},
	}
	s.on("status", answer{body: lines(wire.StatusAnswer{SendAPIs: true})}, answer{body: lines(wire.StatusAnswer{})}, answer{body: lines(wire.StatusAnswer{})})
	announce := func(last []byte, must bool) []byte {
		t.Helper()
		said, err := a.announce(t.Context(), last, must)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	last := announce(nil, true)
	var first, whole wire.AgentStatus
	if len(s.asked) != 2 || json.Unmarshal([]byte(s.asked[0].body), &first) != nil || json.Unmarshal([]byte(s.asked[1].body), &whole) != nil {
		t.Fatalf("asked %+v", s.asked)
	}
	if first.APIs != nil || len(whole.APIs) != 1 || first.KubernetesVersion != "k" || first.APIsDigest != "d" {
		t.Errorf("sent %+v and %+v", first, whole)
	}
	if last = announce(last, false); len(s.asked) != 2 {
		t.Error("nothing had changed, and yet it was sent")
	}
	now.Halted = "paused"
	if last = announce(last, false); len(s.asked) != 3 || !strings.Contains(s.asked[2].body, "paused") {
		t.Errorf("asked %+v", s.asked)
	}
	s.on("status", answer{status: 404}, answer{status: 500})
	announce(last, true) // a hub that does not know of it is not asked again and again
	if _, err := a.announce(t.Context(), last, true); err == nil {
		t.Error("an error of the hub was taken for an answer")
	}
}

// TestGateSaysWhy shows the order of the reasons for which nothing is changed.
func TestGateSaysWhy(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	g := newGate(e, nil, quiet)
	for _, c := range []struct{ halt, broken, want string }{
		{"", "no answer", "no answer"}, {"paused", "no answer", "paused"}, {"paused", "", "paused"}, {"", "", ""},
	} {
		g.setHalt(c.halt)
		g.setBroken(c.broken)
		if why := g.why(); why != c.want || e.closed != c.want {
			t.Errorf("halt %q, broken %q: %q and %q, want %q", c.halt, c.broken, why, e.closed, c.want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		e.touch([]touched{{object: key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}, want: &want{}}})
		it, ok := e.next(ctx)
		cancel()
		if ok != (c.want == "") {
			t.Errorf("halt %q, broken %q: a worker got %v", c.halt, c.broken, it)
		}
	}
}

// TestProbe shows what counts as a broken target: one that does not answer,
// that serves nothing, or whose discovery is no discovery. What it serves is not
// told anew while it is.
func TestProbe(t *testing.T) {
	const core, groups = `{"kind":"APIVersions","versions":["v1"]}`, `{"kind":"APIGroupList","groups":[{"name":"apps"}]}`
	for name, c := range map[string]struct {
		status       int
		core, groups string
		broken       string
	}{
		"whole":        {200, core, groups, ""},
		"no groups":    {200, core, `{"kind":"APIGroupList","groups":[]}`, "serves none"},
		"no core":      {200, `{}`, groups, "serves none"},
		"garbage":      {200, core, "<html>", "decode answer"},
		"unavailable":  {503, "", "", "discover the core API"},
		"unauthorized": {401, "", "", "discover the core API"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				body := map[string]string{"/api": c.core, "/apis": c.groups}[r.URL.Path]
				if _, err := io.WriteString(w, body); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			at, err := newTarget(&rest.Config{Host: server.URL}, "test", func(string, int) {})
			if err != nil {
				t.Fatal(err)
			}
			err = at.probe(t.Context())
			if (err == nil) != (c.broken == "") || err != nil && !strings.Contains(err.Error(), c.broken) {
				t.Errorf("the probe says %v, want %q", err, c.broken)
			}
			a := &announcer{target: at, log: quiet, kubernetes: "k", apisDigest: "d"}
			if a.learn(t.Context()); c.broken != "" && a.kubernetes != "k" {
				t.Errorf("the agent says %q of a target that does not say what it is", a.kubernetes)
			}
		})
	}
}
