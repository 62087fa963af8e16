package observe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestGateSaysWhy shows the order of the reasons for which nothing is changed.
func TestGateSaysWhy(t *testing.T) { synctest.Test(t, gateSaysWhy) }

func gateSaysWhy(t *testing.T) {
	e := worklist.New()
	g := NewGate(e, nil, quiet)
	for _, c := range []struct{ halt, broken, want string }{
		{"", "no answer", "no answer"}, {"paused", "no answer", "paused"}, {"paused", "", "paused"}, {"", "", ""},
	} {
		g.SetHalt(func() string { return c.halt })
		g.setBroken(c.broken)
		if why := g.Why(); why != c.want {
			t.Errorf("halt %q, broken %q: %q, want %q", c.halt, c.broken, why, c.want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		e.Touch([]store.Touched{{Object: key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "a"}}, Want: &store.Want{}}})
		it, ok := e.Next(ctx)
		cancel()
		if ok != (c.want == "") {
			t.Errorf("halt %q, broken %q: a worker got %v", c.halt, c.broken, it)
		}
	}
}
