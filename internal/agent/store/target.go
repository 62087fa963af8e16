package store

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// Target changes the facts in Meta that the agent learns from the cluster: its identity, the kinds
// that it serves, and the Leases and ownership metadata of other agents.
type Target struct{ meta *Meta }

// SetCluster records the identity of the cluster, which was unknown before.
func (t Target) SetCluster(c Cluster) { t.meta.Cluster = c }

// RequestSearch records that the agent has to search the cluster for objects that the store does not
// know.
func (t Target) RequestSearch() { t.meta.SearchPending = true }

// SetSearched records that the agent has searched the cluster.
func (t Target) SetSearched() {
	t.meta.SearchPending = false
	t.meta.Inherits = t.meta.Inherits && len(t.meta.Settings.TakesOver) > 0
}

// SetTakesOver records that the location takes over objects of other owners.
func (t Target) SetTakesOver() { t.meta.Inherits = true }

// SetSuccessor records that another location has taken over the objects of this one.
func (t Target) SetSuccessor(owner ownership.Owner) { t.meta.Successor = owner }

// SetAggregated records whether the cluster serves a resource without a CustomResourceDefinition.
func (t Target) SetAggregated(r key.Resource, aggregated bool) {
	moves := !aggregated && t.meta.IsAggregated(r)
	t.meta.Aggregated = withResource(t.meta.Aggregated, r, aggregated)
	t.meta.Moved = withResource(t.meta.Moved, r, moves || !aggregated && t.meta.hasMoved(r))
}

// withResource returns a copy of a sorted list of resources, with or without one of them.
func withResource(all []string, r key.Resource, with bool) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == r.String() })
	if with {
		all = append(all, r.String())
		slices.Sort(all)
	}
	return all
}

// SetOutdated records that another agent has acted with another store, or with a newer copy of this
// one.
func (t Target) SetOutdated() { t.meta.Outdated = true }

// SetReplaces records the state of the store that the Lease of the location named before an agent
// first acted with this store.
func (t Target) SetReplaces(s State) { t.meta.Replaces = &s }

// SetNewer records why the cluster shows that this store is an older copy. Nothing clears it: the next
// start begins with a new store.
func (t Target) SetNewer(reason string) { t.meta.Newer = reason }
