// Package fencing decides whether this agent may act at its cluster, by the Leases there. An agent that can't
// reach its hub continues to act, so the cluster decides which agent acts.
//
// Several agents can share a location, each with the spaces of one shard (key.Shard). Each holds a Lease for its
// number, which names the number of shards, and acts only while it holds this Lease. The agent of a whole
// location holds none: it acts only while there are none.
//
// The package guarantees that no two agents act for one space at a time. Each agent first writes its own Lease
// and then reads all others, so if two begin together, at least one reads the Lease of the other. A reader
// ignores the times in a Lease. It takes over a Lease that was unchanged for its duration by the reader's own
// clock. A holder that could not renew its Lease stops well before that. See docs/design/shards.md.
//
// The package changes only Leases at the cluster.
package fencing
