package presence

import (
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestJoined: the statuses of agents that share a location add up, and one confirmation confirms
// the pending removals of all.
func TestJoined(t *testing.T) {
	prune := func(digest, space string) *wire.PruneStatus {
		return &wire.PruneStatus{Pending: 2, Digest: digest, Spaces: []wire.SpacePrune{{Space: space, Pending: 2, Digest: digest}}}
	}
	all := Joined([]*AgentStatus{
		{UID: "u", SignedBy: "ca", Exceeds: 1, Status: &wire.AgentStatus{Version: "v", Deferred: 1, Prune: prune("aa", "x"), StoreEncrypted: true, LogIdentity: wire.Proven, Purge: &wire.PurgeStatus{Left: 1}}},
		{UID: "u", Strange: "1/3"},
		{UID: "u", Exceeds: 2, Status: &wire.AgentStatus{Deferred: 2, Prune: prune("bb", "y"), LogIdentity: wire.Unproven, Awaits: "m", Halted: "h"}},
	}, true)
	s := all.Status
	if all.UID != "u" || all.SignedBy != "ca" || all.Strange != "1/3" || all.Exceeds != 3 {
		t.Errorf("%+v", all)
	}
	if s.Version != "v" || s.Deferred != 3 || s.Prune.Pending != 4 || len(s.Prune.Spaces) != 2 || s.StoreEncrypted || s.LogIdentity != wire.Unproven || s.Awaits != "m" || s.Halted != "h" || s.Purge != nil {
		t.Errorf("%+v %+v", s, s.Prune)
	}
	if got := DigestsOf(s.Prune.Digest); strings.Join(got, " ") != "aa bb" {
		t.Errorf("%s confirms %v", s.Prune.Digest, got)
	}
	if Joined(nil, true) != nil {
		t.Error("without statuses, a combined status is returned")
	}
}

func TestAgentsOf(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`: "1/1", `{"spec":{"shards":1}}`: "1/1", `{"spec":{"shards":3}}`: "1/3 2/3 3/3", `{"spec":{"shards":"x"}}`: "1/1", `{"spec":{"shards":-1}}`: "1/1",
	} {
		var got []string
		for _, agent := range AgentsOf("paris", &table.Row{Entry: &table.Entry{Value: []byte(spec)}}) {
			got = append(got, agent.Shard.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", spec, got, want)
		}
	}
	if n := len(AgentsOf("paris", &table.Row{Entry: &table.Entry{Value: []byte(`{"spec":{"shards":99}}`)}})); n != key.MaxShards {
		t.Error(n)
	}
}
