package presence

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// ShardsOf returns the number of agents that share a location, by its row: 1 by default.
func ShardsOf(location *table.Row) int {
	var agent struct {
		Spec struct {
			Shards int `json:"shards"`
		} `json:"spec"`
	}
	if location == nil || json.Unmarshal(location.Value, &agent) != nil {
		return 1
	}
	return min(max(1, agent.Spec.Shards), key.MaxShards)
}

// AgentsOf returns the agents that share a location, by its row, in order.
func AgentsOf(l key.Location, location *table.Row) (all []key.Session) {
	n := ShardsOf(location)
	for k := range n {
		all = append(all, key.Session{Location: l, Shard: key.NewShard(k+1, n)})
	}
	return all
}

// AllOpen reports whether all agents that share a location, by its row, have a session at any hub.
func AllOpen(state table.Reader, l key.Location, location *table.Row) bool {
	open := SessionsOf(state, l)
	return !slices.ContainsFunc(AgentsOf(l, location), func(agent key.Session) bool {
		_, there := open[agent.Shard]
		return !there
	})
}

// Joined returns the combined status of several agents of a location; nil if there is none. whole
// reports that all of them have a session and a status; otherwise the progress of a purge is
// unknown.
func Joined(all []*AgentStatus, whole bool) *AgentStatus {
	if len(all) == 0 {
		return nil
	}
	sum := &AgentStatus{UID: all[0].UID}
	var statuses []*wire.AgentStatus
	for _, s := range all {
		sum.SignedBy, sum.Refused, sum.Strange = cmp.Or(sum.SignedBy, s.SignedBy), cmp.Or(sum.Refused, s.Refused), cmp.Or(sum.Strange, s.Strange)
		sum.Exceeds += s.Exceeds
		if s.Status != nil {
			statuses = append(statuses, s.Status)
		}
	}
	if len(statuses) > 0 {
		sum.Status = joined(statuses)
		if len(all) > 1 || !whole {
			sum.Status.Purge = joinedPurge(statuses, whole && len(statuses) == len(all))
		}
	}
	return sum
}

// joined combines the statuses of several agents of a location.
func joined(all []*wire.AgentStatus) *wire.AgentStatus {
	sum := *all[0]
	for _, s := range all[1:] {
		sum.StoreEncrypted = sum.StoreEncrypted && s.StoreEncrypted
		sum.Halted, sum.Awaits = cmp.Or(sum.Halted, s.Halted), cmp.Or(sum.Awaits, s.Awaits)
		sum.StoreError = cmp.Or(sum.StoreError, s.StoreError)
		if s.LogIdentity == wire.Unproven {
			sum.LogIdentity = s.LogIdentity
		}
		sum.Deferred += s.Deferred
		sum.Cluster = joinedCluster(sum.Cluster, s.Cluster)
		sum.Prune = joinedPrune(sum.Prune, s.Prune)
		sum.Upsync = joinedSees(sum.Upsync, s.Upsync)
	}
	return &sum
}

// digestsJoin separates the digests of several agents' pending removals, which together identify
// those of the location.
const digestsJoin = "-"

// DigestsOf returns the digests of agents in a confirmation for a location.
func DigestsOf(confirmation string) []string { return strings.Split(confirmation, digestsJoin) }

// joinedCluster returns the worse of two agents' states of their common cluster, and the first of
// two equal ones. A state that this hub does not know counts as the worst.
func joinedCluster(a, b *wire.ClusterStatus) *wire.ClusterStatus {
	states := []wire.ClusterState{wire.ClusterUnavailable, wire.ClusterUnknown, wire.ClusterAvailable}
	switch {
	case a == nil:
		return b
	case b == nil || slices.Index(states, a.State) <= slices.Index(states, b.State):
		return a
	}
	return b
}

func joinedPrune(a, b *wire.PruneStatus) *wire.PruneStatus {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &wire.PruneStatus{
		Pending: a.Pending + b.Pending, Digest: a.Digest + digestsJoin + b.Digest,
		Spaces: slices.Concat(a.Spaces, b.Spaces), Placements: slices.Concat(a.Placements, b.Placements), Objects: slices.Concat(a.Objects, b.Objects),
	}
}

func joinedSees(a, b *wire.UpsyncStatus) *wire.UpsyncStatus {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := &wire.UpsyncStatus{Omitted: a.Omitted + b.Omitted, Unread: slices.Clone(a.Unread)}
	for _, kind := range b.Unread {
		same := func(k wire.UnreadKind) bool { return k.Group == kind.Group && k.Resource == kind.Resource }
		if len(sum.Unread) < wire.MaxUnread && !slices.ContainsFunc(sum.Unread, same) {
			sum.Unread = append(sum.Unread, kind)
		}
	}
	return sum
}

// joinedPurge returns the progress of all agents; nil unless whole, and all have begun.
func joinedPurge(all []*wire.AgentStatus, whole bool) *wire.PurgeStatus {
	if !whole {
		return nil
	}
	sum := &wire.PurgeStatus{}
	for _, s := range all {
		if s.Purge == nil {
			return nil
		}
		sum.Left, sum.Kept, sum.Objects = sum.Left+s.Purge.Left, sum.Kept+s.Purge.Kept, append(sum.Objects, s.Purge.Objects...)
	}
	return sum
}
