package mapper

import (
	"context"
	"testing"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/store"
)

// TestGateSaysWhy shows the order of the reasons for which nothing is changed.
func TestGateSaysWhy(t *testing.T) {
	e := newEngine()
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
		e.touch([]store.Touched{{Object: key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}, Want: &store.Want{}}})
		it, ok := e.next(ctx)
		cancel()
		if ok != (c.want == "") {
			t.Errorf("halt %q, broken %q: a worker got %v", c.halt, c.broken, it)
		}
	}
}
