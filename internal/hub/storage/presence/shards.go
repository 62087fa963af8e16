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

// ShardsOf is how many agents share a location, by its row: 1 unless its spec says otherwise.
func ShardsOf(location *table.Row) int {
	var of struct {
		Spec struct {
			Shards int `json:"shards"`
		} `json:"spec"`
	}
	if location == nil || json.Unmarshal(location.Value, &of) != nil {
		return 1
	}
	return min(max(1, of.Spec.Shards), key.MaxShards)
}

// AgentsOf are the agents that share a location, by its row, in order.
func AgentsOf(l key.Location, location *table.Row) (all []key.Session) {
	n := ShardsOf(location)
	for k := range n {
		all = append(all, key.Session{Location: l, Shard: key.NewShard(k+1, n)})
	}
	return all
}

// AllOpen says whether all the agents that share a location, by its row, hold a session, at
// any hub.
func AllOpen(state table.Reader, l key.Location, location *table.Row) bool {
	open := SessionsOf(state, l)
	return !slices.ContainsFunc(AgentsOf(l, location), func(of key.Session) bool {
		_, there := open[of.Shard]
		return !there
	})
}

// Joined is what several agents of a location have said, as if it were one; nil: nothing. whole
// says that all who share it have a session and have said something: without that nobody knows
// how far a purge is.
func Joined(all []*Said, whole bool) *Said {
	if len(all) == 0 {
		return nil
	}
	sum := &Said{UID: all[0].UID}
	var said []*wire.AgentStatus
	for _, s := range all {
		sum.SignedBy, sum.Refused, sum.Strange = cmp.Or(sum.SignedBy, s.SignedBy), cmp.Or(sum.Refused, s.Refused), cmp.Or(sum.Strange, s.Strange)
		sum.Exceeds += s.Exceeds
		if s.Status != nil {
			said = append(said, s.Status)
		}
	}
	if len(said) > 0 {
		sum.Status = joined(said)
		if len(all) > 1 || !whole {
			sum.Status.Purge = joinedPurge(said, whole && len(said) == len(all))
		}
	}
	return sum
}

// joined is what several agents of a location say of themselves, as if it were one.
func joined(all []*wire.AgentStatus) *wire.AgentStatus {
	sum := *all[0]
	for _, s := range all[1:] {
		sum.StoreEncrypted = sum.StoreEncrypted && s.StoreEncrypted
		sum.Halted, sum.Awaits = cmp.Or(sum.Halted, s.Halted), cmp.Or(sum.Awaits, s.Awaits)
		sum.StoreError = cmp.Or(sum.StoreError, s.StoreError)
		if s.Lineage == wire.Unproven {
			sum.Lineage = s.Lineage
		}
		sum.Deferred += s.Deferred
		sum.Cluster = joinedCluster(sum.Cluster, s.Cluster)
		sum.Prune = joinedPrune(sum.Prune, s.Prune)
		sum.Sees = joinedSees(sum.Sees, s.Sees)
	}
	return &sum
}

// digestsJoin is between the digests of several agents' pending removals, which together
// name those of the location.
const digestsJoin = "-"

// DigestsOf are the digests of agents that a confirmation for a location names.
func DigestsOf(confirmation string) []string { return strings.Split(confirmation, digestsJoin) }

// joinedCluster returns the worst of what two agents report of their one cluster, and of two that are as bad
// what the first reports. A state that this hub does not know counts as the worst.
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

func joinedSees(a, b *wire.SeesStatus) *wire.SeesStatus {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := &wire.SeesStatus{LeftOut: a.LeftOut + b.LeftOut, Unread: slices.Clone(a.Unread)}
	for _, kind := range b.Unread {
		same := func(k wire.UnreadKind) bool { return k.Group == kind.Group && k.Resource == kind.Resource }
		if len(sum.Unread) < wire.MaxUnread && !slices.ContainsFunc(sum.Unread, same) {
			sum.Unread = append(sum.Unread, kind)
		}
	}
	return sum
}

// joinedPurge is the progress of all, nil unless whole, and all have begun.
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
