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

// TestLastStatusIsWritten: an agent sends its status to one hub and then to another, as with a load
// balancer; the last status stays.
func TestLastStatusIsWritten(t *testing.T) {
	endpoint := etcdtest.Listen(t, nil)
	hubs := []*one{hubAt(t, endpoint), hubAt(t, endpoint)}
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
			t.Fatalf("the last status of the agent is %q, and %q is stored", want, got)
		}
	}
}

// TestWithdrawnStatus: a status whose caller stopped waiting, or that could not be written, is not
// written later; newer patches are.
func TestWithdrawnStatus(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	agent := key.WholeOf("l")
	left := []string{agent.StatusKey()}
	start := func() *Writer { return NewWriter(nil, nil, nil, slog.New(slog.DiscardHandler)) }

	w := start()
	if err := w.Tell(ended, agent, Statement{Status: wire.AgentStatus{Version: "v1"}}); !errors.Is(err, context.Canceled) || w.patches[agent].Status != nil {
		t.Errorf("the caller has stopped waiting: error %v, %+v is pending", err, w.patches[agent])
	}

	w = start()
	late := &waiter{answered: make(chan error, 1)}
	w.Say(agent, Patch{Status: &wire.AgentStatus{Version: "v1"}, waiter: late})
	under := w.take(true)
	w.withdraw(agent, late)
	w.back(under, left, nil)
	if w.patches[agent].Status != nil {
		t.Errorf("withdrawn during its write, %+v is pending again", w.patches[agent])
	}

	for _, newer := range []bool{false, true} {
		w = start()
		refused, full := "v0", &waiter{answered: make(chan error, 1)}
		w.Say(agent, Patch{Status: &wire.AgentStatus{Version: "v1"}, Refused: &refused, waiter: full})
		under = w.take(true)
		if newer {
			w.Say(agent, Patch{Status: &wire.AgentStatus{Version: "v2"}})
		}
		w.back(under, left, etcd.ErrFull)
		if err := <-full.answered; !errors.Is(err, etcd.ErrFull) {
			t.Errorf("without room: error %v", err)
		}
		if p := w.patches[agent]; (p.Status != nil) != newer || p.Refused == nil {
			t.Errorf("without room, newer %t: %+v is to be written", newer, p)
		}
	}
}
