package hubclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestNamespacesUnanswered shows that a Namespace without an answer of the hub is not taken for one that no shard has,
// that all that wait learn once that there is no answer, and that an older answer counts. One by which the Namespace is
// not desired counts only while the store has nothing newer, also within one session.
func TestNamespacesUnanswered(t *testing.T) {
	s := newScripted(t)
	var woken []string
	n := NewNamespaces(s.session.Link, func(ids []string) { woken = append(woken, ids...) })
	answered := func(desired ...string) {
		t.Helper()
		s.script("namespaces", answer{body: lines(wire.NamespacesResponse{Desired: desired})})
		if err := n.inquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(id string, now time.Time, desired bool, want error) {
		t.Helper()
		if got, err := n.Desired(id, "a", ownership.Pair{}, now); got != desired || !errors.Is(err, want) {
			t.Errorf("%s: desired %t, %v; want %t, %v", id, got, err, desired, want)
		}
	}
	began := time.Now()
	check("x", began, false, ErrPending)
	check("y", began, false, ErrPending)
	late := began.Add(namespaceSilence)
	check("x", late, false, ErrUnanswered)
	if slices.Sort(woken); !slices.Equal(woken, []string{"x", "y"}) {
		t.Errorf("without an answer %q are woken", woken)
	}
	woken = nil
	check("y", late, false, ErrUnanswered)
	check("x", late.Add(time.Hour), false, ErrUnanswered)
	if len(woken) > 0 {
		t.Errorf("%q are woken again", woken)
	}
	answered("a")
	if slices.Sort(woken); !slices.Equal(woken, []string{"x", "y"}) {
		t.Errorf("by the answer %q are woken", woken)
	}
	now := time.Now()
	check("x", now, true, nil)
	check("x", now.Add(namespaceTTL), false, ErrPending)
	check("x", now.Add(namespaceTTL+namespaceSilence), true, nil)
	answered()
	check("x", time.Now(), false, nil)
	now = time.Now()
	silent := now.Add(namespaceTTL + namespaceSilence)
	check("x", now.Add(namespaceTTL), false, ErrPending)
	check("x", silent, false, ErrUnanswered) // its position in the log is not known
	if err := s.session.Store.Write(t.Context(), func(x *store.Tx) error {
		x.Meta().Marker, x.Meta().Revision = "m", 5
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// Only a position in the log that is not older than the store counts, within a session and without one.
	for _, open := range []bool{true, false} {
		if s.session.State.connected(true, "m", false); !open {
			s.session.State.ended(io.EOF)
		}
		for _, position := range []struct {
			marker   string
			revision int64
			counts   bool
		}{{"m", 5, true}, {"m", 6, true}, {"m", 4, false}, {"other", 6, false}, {"", 6, false}} {
			s.script("namespaces", answer{body: lines(wire.NamespacesResponse{Marker: position.marker, Revision: position.revision})})
			if err := n.inquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, want := time.Now(), error(nil)
			if !position.counts {
				want = ErrUnanswered
			}
			check("x", now.Add(namespaceTTL), false, ErrPending)
			check("x", now.Add(namespaceTTL+namespaceSilence), false, want)
		}
	}
	s.session.State.connected(true, "m", false)
	answered()
	check("x", time.Now(), false, nil)
	s.script("namespaces", answer{status: http.StatusServiceUnavailable})
	check("x", time.Now().Add(namespaceTTL), false, ErrPending)
	if err := n.inquire(t.Context()); err == nil {
		t.Error("an error counts as an answer")
	}
}

// TestNamespacesBefore shows that an answer by which a Namespace is not desired does not count for an object that is newer
// in the log: another shard may have received the Namespace between the two. The hub is queried again, but not at once.
func TestNamespacesBefore(t *testing.T) {
	s := newScripted(t)
	s.session.State.connected(true, "m", false)
	s.session.State.marked()
	n := NewNamespaces(s.session.Link, func([]string) {})
	now := time.Now()
	check := func(needed ownership.Pair, desired bool, want error) {
		t.Helper()
		if got, err := n.Desired("x", "a", needed, now); got != desired || !errors.Is(err, want) {
			t.Errorf("at %s: desired %t, %v; want %t, %v", needed, got, err, desired, want)
		}
	}
	queried := func(want ...string) {
		t.Helper()
		if names := n.next(); !slices.Equal(names, want) {
			t.Errorf("%q are queried, want %q", names, want)
		}
	}
	answered := func(a wire.NamespacesResponse) { n.learn([]string{"a"}, a, now) }
	position := ownership.NewPair

	check(position("m", 4), false, ErrPending)
	queried("a")
	answered(wire.NamespacesResponse{Marker: "m", Revision: 5})
	check(position("m", 5), false, nil)
	check(ownership.Pair{}, false, nil) // an older hub sent the object
	check(position("m", 6), false, ErrPending)
	queried()
	now = now.Add(namespacePause)
	check(position("m", 6), false, ErrPending)
	queried("a")
	now = now.Add(namespaceSilence)
	check(position("m", 6), false, ErrUnanswered) // also if the hub has answered meanwhile, and stays behind
	answered(wire.NamespacesResponse{Marker: "m", Revision: 6})
	check(position("m", 6), false, nil)
	check(position("newer", 7), false, ErrPending) // a hub has started since
	now = now.Add(namespacePause)
	check(position("newer", 7), false, ErrPending)
	queried("a")
	answered(wire.NamespacesResponse{Marker: "m", Revision: 6, Desired: []string{"a"}})
	check(position("newer", 7), true, nil) // it is left to the agent of the other shard
	s.session.State.connected(false, "restored", false)
	now = now.Add(2 * namespaceTTL)
	check(position("m", 6), false, ErrPending)
	answered(wire.NamespacesResponse{Marker: "restored", Revision: 3})
	check(position("m", 6), false, nil) // revisions of two logs cannot be compared
}

// TestNamespacesCache shows that the cache of answers is bounded, and that answers that a Namespace is desired stay.
func TestNamespacesCache(t *testing.T) {
	n := NewNamespaces(Link{}, func([]string) {})
	began := time.Now()
	n.learn([]string{"kept"}, wire.NamespacesResponse{Desired: []string{"kept"}}, began)
	for i := range 3 * maxCachedNamespaces {
		n.learn([]string{fmt.Sprint(i)}, wire.NamespacesResponse{}, began.Add(time.Duration(i)))
		if len(n.known) > maxCachedNamespaces {
			t.Fatalf("%d answers are cached", len(n.known))
		}
	}
	if !n.known["kept"].desired {
		t.Error("the answer that a Namespace is desired was evicted before others")
	}
	if _, ok := n.known[fmt.Sprint(3*maxCachedNamespaces-1)]; !ok {
		t.Error("the newest answer was evicted")
	}
	for i := range 2 * maxCachedNamespaces {
		name := fmt.Sprint("desired-", i)
		n.learn([]string{name}, wire.NamespacesResponse{Desired: []string{name}}, began.Add(time.Hour+time.Duration(i)))
	}
	if len(n.known) > maxCachedNamespaces {
		t.Errorf("%d answers are cached if all are desired", len(n.known))
	}
}
