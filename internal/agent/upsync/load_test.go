package upsync

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestLoadKeepsReports: after a start the reports of associated objects stay until their kinds are listed, which
// may be long if the target is down.
func TestLoadKeepsReports(t *testing.T) {
	s, err := store.Open(t.TempDir(), key.Location("edge"), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	id := key.Identity{Resource: key.NewResource("apps", "deployments"), Namespace: "n", Name: "web"}
	pod := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "pods"), Namespace: "n", Name: "web-1"}}
	if err := s.Write(t.Context(), func(x *store.Tx) error {
		record := &store.Record{Space: "s", UID: "u", Source: store.Source{Policy: wire.Policy{Associated: "core/pods"}}}
		if err := x.PutRecord(id.String(), record); err != nil {
			return err
		}
		return x.Reports.Set(lineOf(key.Owned, pod), &wire.Report{UID: "p", State: wire.Present, Owner: id.String()})
	}); err != nil {
		t.Fatal(err)
	}
	c := New(nil, s, nil, nil, nil, slog.New(slog.DiscardHandler))
	if err := c.load(wire.Settings{}, key.Same); err != nil {
		t.Fatal(err)
	}
	if len(c.ledger.associated.roots) != 1 {
		t.Fatalf("%d objects request associated ones, want 1", len(c.ledger.associated.roots))
	}
	if changes := c.ledger.out.take(); len(changes) > 0 {
		t.Errorf("before any kind is listed, reports change: %+v", changes)
	}
	if !c.ledger.out.isUnclaimed(lineOf(key.Owned, pod)) {
		t.Error("the report of the Pod is not expected")
	}
}
