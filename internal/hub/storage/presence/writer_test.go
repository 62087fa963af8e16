package presence

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// one is the part of a hub under test.
type one struct {
	*Writer
	index *Index
	taken chan key.Session
}

// hubAt returns a hub on a log, which runs until the test ends.
func hubAt(t *testing.T, endpoint string) *one {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	log, err := etcd.Open(t.Context(), etcd.Config{Servers: []string{endpoint}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	h := &one{index: NewIndex(time.Now), taken: make(chan key.Session, 100)}
	rows := table.New(table.Config{WindowSteps: 1000, WindowBytes: 1 << 20, Observer: h.index})
	member := NewMember(Config{
		Log: log, Table: rows.Table, Needs: func() int64 { return 0 }, Alone: func() bool { return true }, TTL: limit.Never, Logger: logger,
	})
	h.Writer = NewWriter(log, rows.Table, member, logger)
	h.index.Follow(h.Writer, func(agent key.Session) { h.taken <- agent }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	loaded, ended := make(chan struct{}, 1), make(chan struct{}, 4)
	go func() {
		_ = log.Tail(ctx, rows, etcd.Hooks{Lost: func(bool) {}, Loaded: func() {
			select {
			case loaded <- struct{}{}:
			default: // the table was loaded before
			}
		}, Probed: func(error) {}})
		ended <- struct{}{}
	}()
	limit.Receive(t, loaded, "the table is loaded")
	go func() { _ = member.Run(ctx); ended <- struct{}{} }()
	go func() { _ = h.Run(ctx); ended <- struct{}{} }()
	go func() {
		_ = log.Keep(ctx, etcd.Keeping{Every: time.Minute, Seen: rows.Rev, Floor: func() int64 { return 0 }, Reached: rows.Rev, Throttle: etcd.DefaultThrottle()})
		ended <- struct{}{}
	}()
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			<-ended
		}
		_ = log.Close() // the context of the client has ended
	})
	return h
}

// location adds a Location for agents.
func (h *one) location(t *testing.T, l key.Location) {
	t.Helper()
	rev, err := h.log.Write(t.Context(), []etcd.Op{{Key: l.Key(), Value: fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q}}`, l, l)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.table.WaitFor(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
}

// holder returns the hub that has the session of a location; empty for none.
func (h *one) holder(l key.Location) string {
	return SessionsOf(h.table.Snapshot(), l)[key.WholeOf(l).Shard].Hub
}

// version returns the agent version in the last status of a location.
func (h *one) version(l key.Location) string {
	stored := AgentStatusOf(h.table.Snapshot(), key.WholeOf(l), string(l))
	if stored == nil || stored.Status == nil {
		return ""
	}
	return stored.Status.Version
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	env.Eventually(t, limit.Wait, func() error {
		if !is() {
			return fmt.Errorf("not in time: %s", what)
		}
		return nil
	})
}

// TestSessions: all hubs see a session that begins, and no hub sees one that ended. A hub that
// takes a session over has it; the previous hub is notified, and its end of the session changes
// nothing.
func TestSessions(t *testing.T) {
	endpoint := etcdtest.Listen(t, nil)
	a, b := hubAt(t, endpoint), hubAt(t, endpoint)
	l := key.Location("l")
	a.location(t, l)
	s := key.WholeOf(l)
	a.Begin(s, Session{Since: time.Now()})
	eventually(t, "it has begun", func() bool { return b.holder(l) == a.member.ID() })
	b.Begin(s, Session{Since: time.Now()})
	if agent := limit.Receive(t, a.taken, "a session is taken over"); agent != s {
		t.Fatal("another is taken over:", agent)
	}
	a.End(s)
	a.Begin(key.WholeOf("other"), Session{Since: time.Now()})
	eventually(t, "a has written what comes after", func() bool { return b.holder("other") == a.member.ID() })
	if b.holder(l) != b.member.ID() {
		t.Fatalf("%q has it, not %q", b.holder(l), b.member.ID())
	}
	b.End(s)
	eventually(t, "it has ended", func() bool { return a.holder(l) == "" && !a.index.Gone(s).IsZero() })
}

// TestNewLease: under a new lease a hub writes its sessions again, except for those that another
// hub now has.
func TestNewLease(t *testing.T) {
	endpoint := etcdtest.Listen(t, nil)
	a, b := hubAt(t, endpoint), hubAt(t, endpoint)
	for _, l := range []key.Location{"kept", "moved"} {
		a.Begin(key.WholeOf(l), Session{Since: time.Now()})
		eventually(t, "they have begun", func() bool { return b.holder(l) == a.member.ID() })
	}
	b.Begin(key.WholeOf("moved"), Session{Since: time.Now()})
	limit.Receive(t, a.taken, "a session is taken over") // its handler has not ended
	before, _, _ := a.member.Lease()
	row, _ := b.table.Get(key.WholeOf("kept").Key())
	if err := before.Revoke(limit.Context(t, "revoke a lease")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session is there anew", func() bool {
		now, _ := b.table.Get(key.WholeOf("kept").Key())
		return now != nil && now.ModRev > row.ModRev
	})
	if b.holder("moved") != b.member.ID() {
		t.Fatal("the hub takes a session back from the hub that has it now")
	}
}

// TestStoredStatus: the last status of an agent is stored, from any hub; without its Location none is.
func TestStoredStatus(t *testing.T) {
	endpoint := etcdtest.Listen(t, nil)
	a, b := hubAt(t, endpoint), hubAt(t, endpoint)
	a.location(t, "l")
	s, refused := key.WholeOf("l"), "v0"
	a.Say(key.WholeOf("none"), Patch{Status: &wire.AgentStatus{Version: "v1"}})
	a.Say(s, Patch{Status: &wire.AgentStatus{Version: "v1"}})
	eventually(t, "v1", func() bool { return b.version("l") == "v1" })
	b.Say(s, Patch{Refused: &refused})
	eventually(t, "refused", func() bool { // the table of a may be older than that of b
		status := AgentStatusOf(a.table.Snapshot(), s, "l")
		return status != nil && status.Refused == refused && a.version("l") == "v1"
	})
	a.Begin(s, Session{})
	eventually(t, "it has connected since", func() bool { return AgentStatusOf(b.table.Snapshot(), s, "l").Refused == "" })
	if AgentStatusOf(a.table.Snapshot(), s, "a Location of before") != nil || a.table.Snapshot().Get(key.WholeOf("none").StatusKey()) != nil {
		t.Fatal("a status is stored for a missing Location")
	}
}

// TestPoison: a change that the log never accepts delays no other change, and causes no repeated
// writes.
func TestPoison(t *testing.T) {
	h := hubAt(t, etcdtest.Listen(t, func(c *embed.Config) { c.MaxRequestBytes = 64 << 10 }))
	for _, l := range []key.Location{"a", "bad", "c"} {
		h.location(t, l)
	}
	large := &wire.PruneStatus{Placements: make([]wire.PlacementPrune, maxPruned)}
	for i := range large.Placements {
		large.Placements[i].Space = strings.Repeat("x", maxName)
	}
	h.Begin(key.WholeOf("a"), Session{Since: time.Now()})
	eventually(t, "a has begun", func() bool { return h.holder("a") != "" })
	row, _ := h.table.Get(key.WholeOf("a").Key())
	for i := range 20 {
		v := fmt.Sprint("v", i)
		h.Say(key.WholeOf("bad"), Patch{Status: &wire.AgentStatus{Prune: large}})
		h.Say(key.WholeOf("a"), Patch{Status: &wire.AgentStatus{Version: v}})
		h.Say(key.WholeOf("c"), Patch{Status: &wire.AgentStatus{Version: v}})
		eventually(t, v, func() bool { return h.version("a") == v && h.version("c") == v })
	}
	h.anew()
	h.Say(key.WholeOf("a"), Patch{Status: &wire.AgentStatus{Version: "last"}})
	eventually(t, "the last", func() bool { return h.version("a") == "last" })
	if now, _ := h.table.Get(key.WholeOf("a").Key()); now.ModRev != row.ModRev {
		t.Fatal("an unchanged session is written again")
	}
}

// TestBounded: the stored status of any agent is at most maxStatus, and that of a correct agent is
// stored completely.
func TestBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("<", 5000), strings.Repeat("\x00é", 2000)} {
		lists := []string{text, text}
		s := wire.AgentStatus{Version: "v1", Halted: text, LogIdentity: wire.LogIdentity(text), Trusts: lists, Purge: &wire.PurgeStatus{Objects: lists},
			Prune: &wire.PruneStatus{Digest: text, Objects: lists}, Upsync: &wire.UpsyncStatus{}}
		for range 1000 {
			s.Prune.Spaces = append(s.Prune.Spaces, wire.SpacePrune{Space: text, Digest: text})
			s.Prune.Placements = append(s.Prune.Placements, wire.PlacementPrune{Space: text, Placement: text, Digest: text})
			s.Upsync.Unread = append(s.Upsync.Unread, wire.UnreadKind{Group: text, Resource: text, Message: text})
		}
		kept := bounded(s)
		value, cut, err := encode(AgentStatus{UID: "u", Status: kept})
		if err != nil || len(value) > maxStatus {
			t.Fatalf("%d bytes are stored, error %v", len(value), err)
		}
		if !cut && !bytes.Contains(value, []byte(`"v1"`)) {
			t.Fatal("the version is lost")
		}
		if len(s.Prune.Spaces[0].Space) != len(text) || len(s.Trusts[0]) != len(text) {
			t.Fatal("the sent status has changed")
		}
	}
}
