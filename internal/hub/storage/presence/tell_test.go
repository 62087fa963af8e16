package presence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// TestToldIsWritten: an agent sends its status to one hub and then to another, as with a load
// balancer; the last status stays.
func TestToldIsWritten(t *testing.T) {
	at := etcdtest.Listen(t, nil)
	hubs := []*one{hubAt(t, at), hubAt(t, at)}
	hubs[0].location(t, "l")
	if err := hubs[1].table.WaitFor(t.Context(), hubs[0].table.Rev()); err != nil {
		t.Fatal(err)
	}
	tell := func(h *one, l key.Location, version string) {
		t.Helper()
		ctx := limit.Context(t, "a hub writes "+version)
		for { // like an agent: the hub gives up slow writes
			err := h.Tell(ctx, key.WholeOf(l), Statement{Status: wire.AgentStatus{Version: version}})
			if err == nil {
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				t.Fatalf("tell %s: %v, %v", version, err, context.Cause(ctx))
			}
		}
	}
	for i := range 20 {
		tell(hubs[(i+1)%2], "l", fmt.Sprint("before-", i))
		tell(hubs[i%2], "l", fmt.Sprint("last-", i))
		for j, h := range hubs { // late writes of both hubs are written before this one
			l := key.Location(fmt.Sprintf("fence-%d-%d", i, j))
			h.location(t, l)
			tell(h, l, "fence")
			eventually(t, "all is written", func() bool { return hubs[0].version(l) == "fence" })
		}
		if got, want := hubs[0].version("l"), fmt.Sprint("last-", i); got != want {
			t.Fatalf("the agent has said %q last, and %q is kept", want, got)
		}
	}
}

// TestNobodyWaits: a status whose caller stopped waiting, or that could not be written, is not
// written later; newer patches are.
func TestNobodyWaits(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	of := key.WholeOf("l")
	left := []string{of.StatusKey()}
	start := func() *Writer { return NewWriter(nil, nil, nil, slog.New(slog.DiscardHandler)) }

	w := start()
	if err := w.Tell(ended, of, Statement{Status: wire.AgentStatus{Version: "v1"}}); !errors.Is(err, context.Canceled) || w.said[of].Status != nil {
		t.Errorf("told while nobody waits: error %v, %+v is to be written", err, w.said[of])
	}

	w = start()
	late := &telling{answered: make(chan error, 1)}
	w.Say(of, Patch{Status: &wire.AgentStatus{Version: "v1"}, told: late})
	under := w.take(true)
	w.withdraw(of, late)
	w.back(under, left, nil)
	if w.said[of].Status != nil {
		t.Errorf("withdrawn while it was written, %+v is to be written again", w.said[of])
	}

	for _, newer := range []bool{false, true} {
		w = start()
		refused, full := "v0", &telling{answered: make(chan error, 1)}
		w.Say(of, Patch{Status: &wire.AgentStatus{Version: "v1"}, Refused: &refused, told: full})
		under = w.take(true)
		if newer {
			w.Say(of, Patch{Status: &wire.AgentStatus{Version: "v2"}})
		}
		w.back(under, left, etcd.ErrFull)
		if err := <-full.answered; !errors.Is(err, etcd.ErrFull) {
			t.Errorf("without room: error %v", err)
		}
		if p := w.said[of]; (p.Status != nil) != newer || p.Refused == nil {
			t.Errorf("without room, newer %t: %+v is to be written", newer, p)
		}
	}
}
