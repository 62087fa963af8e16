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
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestNamespacesUnanswered shows that a Namespace without an answer of the hub is not taken for one that no shard has,
// that all that wait learn once that there is no answer, and that an older answer counts. One by which the Namespace is
// not desired counts during its session, or while the store has nothing newer.
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
		if got, err := n.Desired(id, "a", now); got != desired || !errors.Is(err, want) {
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
	check("x", silent, false, ErrUnanswered) // the answer came while no session was open
	s.session.State.connected(true, "m", false)
	if err := s.session.Store.Write(t.Context(), func(x *store.Tx) error {
		x.Meta().Marker, x.Meta().Revision = "m", 5
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	answered()
	now = time.Now()
	silent = now.Add(namespaceTTL + namespaceSilence)
	check("x", now.Add(namespaceTTL), false, ErrPending)
	check("x", silent, false, nil)
	s.session.State.ended(io.EOF)
	check("x", silent, false, ErrUnanswered) // another shard may have got the Namespace since
	s.session.State.connected(true, "m", false)
	check("x", silent, false, ErrUnanswered)
	// A position in the log that is not older than the store counts without a session.
	s.session.State.ended(io.EOF)
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
	s.session.State.connected(true, "m", false)
	answered()
	check("x", time.Now(), false, nil)
	s.script("namespaces", answer{status: http.StatusServiceUnavailable})
	check("x", time.Now().Add(namespaceTTL), false, ErrPending)
	if err := n.inquire(t.Context()); err == nil {
		t.Error("an error counts as an answer")
	}
}

// TestNamespacesCache shows that the cache of answers is bounded, and that answers that a Namespace is desired stay.
func TestNamespacesCache(t *testing.T) {
	n := NewNamespaces(Link{}, func([]string) {})
	began := time.Now()
	n.learn([]string{"kept"}, wire.NamespacesResponse{Desired: []string{"kept"}}, 0, began)
	for i := range 3 * maxCachedNamespaces {
		n.learn([]string{fmt.Sprint(i)}, wire.NamespacesResponse{}, 0, began.Add(time.Duration(i)))
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
		n.learn([]string{name}, wire.NamespacesResponse{Desired: []string{name}}, 0, began.Add(time.Hour+time.Duration(i)))
	}
	if len(n.known) > maxCachedNamespaces {
		t.Errorf("%d answers are cached if all are desired", len(n.known))
	}
}
