package presence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/etcdtest"
)

// TestRoom: statuses of agents never make etcd reach its quota. While there is no space for them,
// sessions still begin and end. Once an administrator has freed space, all statuses are written.
func TestRoom(t *testing.T) {
	const (
		quota  = 64 << 20
		agents = 300 // their statuses exceed the quota
	)
	endpoint := etcdtest.Listen(t, func(c *embed.Config) { c.QuotaBackendBytes = quota })
	a, b := hubAt(t, endpoint), hubAt(t, endpoint)
	large := &wire.PruneStatus{Placements: make([]wire.PlacementPrune, maxPruned)}
	for i := range large.Placements {
		p := &large.Placements[i]
		p.Space, p.Placement = strings.Repeat("x", maxName), strings.Repeat("x", maxName)
	}
	agentOf := func(i int) key.Session { return key.WholeOf(key.Location(fmt.Sprint("l", i))) }
	for i := range agents {
		a.location(t, agentOf(i).Location)
		for _, h := range []*one{a, b} { // also at both hubs at once
			h.Say(agentOf(i), Patch{Status: &wire.AgentStatus{Version: "v", Prune: large}})
		}
	}
	eventually(t, "no write waits for space in the log", func() bool { return a.log.Capacity().Usage().Refused+b.log.Capacity().Usage().Refused > 0 })
	defragment := func() { // an administrator does this: free space in the file counts
		if _, err := a.log.Client().Defragment(t.Context(), endpoint); err != nil {
			t.Fatal(err)
		}
	}
	s := key.WholeOf("s")
	a.Begin(s, Session{Since: time.Now()})
	eventually(t, "a session has begun", func() bool { return b.holder("s") == a.member.ID() })
	a.End(s)
	eventually(t, "it has ended", func() bool { return b.holder("s") == "" })
	for _, h := range []*one{a, b} {
		if use := h.log.Capacity().Usage(); use.Alarm || use.File > quota {
			t.Errorf("the log is over its quota: %+v", use)
		}
	}
	const gone = agents / 2
	var ends []etcd.Op
	for i := range gone {
		ends = append(ends, etcd.Op{Key: agentOf(i).Location.Key()}, etcd.Op{Key: agentOf(i).StatusKey()})
	}
	if _, err := a.log.Write(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	eventually(t, "not all statuses are written", func() bool {
		defragment()
		for i := gone; i < agents; i++ {
			if a.version(agentOf(i).Location) != "v" {
				return false
			}
		}
		return true
	})
}
