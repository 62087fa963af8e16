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

// TestGuardedAndContested checks that a pending removal stays pending when another space has
// the object, or when the object cannot be rendered, and is cancelled when the object is
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
				return x.CountRemoval(id, &store.Record{Space: "s", UID: "u"}, true, now)
			}); err != nil {
				t.Fatal(err)
			}
			s.script("desired", answer{body: lines(hello(4, wire.Sum{}, nil), c.f, bye)})
			if err := s.once(); err == nil {
				t.Fatal("the session goes on")
			}
			if waits := s.session.Store.Meta().Guarded.Total().Count > 0; waits != c.waits {
				t.Errorf("it waits: %v", waits)
			}
		})
	}
}

// TestAccept checks that a log is accepted only by the marker of its hello, in the settings
// of the hello or in later ones.
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
			s.script("desired", answer{body: lines(append(frames, bye)...)})
			s.script("walk", paged(5, c.hello, a))
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

// TestAcceptedLogIsTakenOver checks that after an acceptance the agent compares the content of
// its store with the hub's, and stores the difference, including removals.
func TestAcceptedLogIsTakenOver(t *testing.T) {
	s, a, _ := filled(t)
	accept := func(h *wire.Hello) { unproven(h); h.Settings.Accept = "other" }
	s.script("desired", answer{body: lines(hello(5, rootOf(a), accept))})
	if err := s.once(); !errors.Is(err, errAccepted) {
		t.Fatal(err)
	}
	another := func(h *wire.Hello) { h.Marker = "other" }
	s.script("desired", answer{body: lines(hello(5, rootOf(a), another)), hang: true})
	s.script("walk", paged(5, another, a))
	if err := s.once(); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	last := s.received[slices.IndexFunc(s.received, func(q received) bool { return q.query.Get("after") == "5" })]
	if last.query.Get("marker") != "other" {
		t.Errorf("the query is %v, want the marker of the accepted log", last.query)
	}
	if got := s.content(); len(got) != 1 || got[keyA].Leaf.Digest != a.Put.Digest {
		t.Errorf("content %v", got)
	}
}

// TestAnnounce checks which status is sent, and that an unchanged status is not sent.
func TestAnnounce(t *testing.T) {
	s := newScripted(t)
	now := wire.AgentStatus{Version: "v", LogIdentity: wire.Proven}
	a := NewAnnouncer(s.session.Link, nil, func() (wire.AgentStatus, error) { return now, nil }, nil)
	a.kubernetes, a.apisDigest, a.apis = "k", "d", []wire.API{{GroupVersion: "v1"}}
	s.script("status", answer{body: lines(wire.StatusAnswer{SendAPIs: true})}, answer{body: lines(wire.StatusAnswer{})}, answer{body: lines(wire.StatusAnswer{})})
	announce := func(last []byte, must bool) []byte {
		t.Helper()
		sent, err := a.announce(t.Context(), last, must)
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	last := announce(nil, true)
	var first, whole wire.AgentStatus
	if len(s.received) != 2 || json.Unmarshal([]byte(s.received[0].body), &first) != nil || json.Unmarshal([]byte(s.received[1].body), &whole) != nil {
		t.Fatalf("the hub received %+v, want a status and one with the APIs", s.received)
	}
	if first.APIs != nil || len(whole.APIs) != 1 || first.KubernetesVersion != "k" || first.APIsDigest != "d" {
		t.Errorf("sent %+v and %+v", first, whole)
	}
	if last = announce(last, false); len(s.received) != 2 {
		t.Error("an unchanged status was sent")
	}
	now.Halted = "paused"
	if last = announce(last, false); len(s.received) != 3 || !strings.Contains(s.received[2].body, "paused") {
		t.Errorf("the hub received %+v, want a third request with the changed status", s.received)
	}
	s.script("status", answer{status: 404}, answer{status: 500})
	announce(last, true) // 404: a hub of an older version does not serve the request
	if _, err := a.announce(t.Context(), last, true); err == nil {
		t.Error("announce ignores an error of the hub")
	}
}

// silent is a cluster that does not respond to discovery.
type silent struct{ version string }

func (s silent) Version(context.Context) (string, error) {
	if s.version == "" {
		return "", errors.New("no answer")
	}
	return s.version, nil
}

func (silent) APIs(context.Context) ([]wire.API, error) { return nil, errors.New("no answer") }

// TestAnnounceKeeps checks that the list of the cluster's APIs is not replaced while the
// cluster does not respond.
func TestAnnounceKeeps(t *testing.T) {
	for version, want := range map[string]string{"": "k", "v2": "v2"} {
		a := NewAnnouncer(Link{Log: quiet}, silent{version}, nil, nil)
		a.kubernetes, a.apisDigest = "k", "d"
		if a.learn(t.Context()); a.kubernetes != want || a.apisDigest != "d" {
			t.Errorf("the status has version %q and digest %q, want %q and the last digest", a.kubernetes, a.apisDigest, want)
		}
	}
}
