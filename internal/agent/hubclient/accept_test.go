package hubclient

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestGuardedAndContested shows that a removal that waits goes on waiting when another
// space yields the object, or when the object can't be rendered, and not when it is
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
			if err := s.session.Store.Write(t.Context(), func(x *store.Tx) error {
				x.Meta().Fresh = false
				return x.Claim(id, &store.Record{Space: "s", UID: "u"}, true, now)
			}); err != nil {
				t.Fatal(err)
			}
			s.on("desired", answer{body: lines(hello(4, wire.Sum{}, nil), c.f, bye)})
			if err := s.once(); err == nil {
				t.Fatal("the session goes on")
			}
			if waits := s.session.Store.Meta().Guarded.Total().Count > 0; waits != c.waits {
				t.Errorf("it waits: %v", waits)
			}
		})
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

// TestAcceptedLogIsTakenOver shows that after an acceptance the agent compares its
// content with the hub's and takes it over, removals included.
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
	a := NewAnnouncer(s.session.Link, nil, func() (wire.AgentStatus, error) { return now, nil }, nil)
	a.kubernetes, a.apisDigest, a.apis = "k", "d", []wire.API{{GroupVersion: "v1"}}
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

// silent is a cluster that does not say what it is.
type silent struct{ version string }

func (s silent) Version(context.Context) (string, error) {
	if s.version == "" {
		return "", errors.New("no answer")
	}
	return s.version, nil
}

func (silent) APIs(context.Context) ([]wire.API, error) { return nil, errors.New("no answer") }

// TestAnnounceKeeps shows that the list of what the cluster serves is not replaced while
// the cluster does not answer.
func TestAnnounceKeeps(t *testing.T) {
	for version, want := range map[string]string{"": "k", "v2": "v2"} {
		a := NewAnnouncer(Link{Log: quiet}, silent{version}, nil, nil)
		a.kubernetes, a.apisDigest = "k", "d"
		if a.learn(t.Context()); a.kubernetes != want || a.apisDigest != "d" {
			t.Errorf("the agent says %q and %q of a cluster that does not say what it serves", a.kubernetes, a.apisDigest)
		}
	}
}
