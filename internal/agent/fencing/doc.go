// Package fencing says whether this agent may act at its cluster, by the Leases that stand
// there. An agent that the hub can't reach goes on, so who has what is decided where it acts.
//
// Several agents can share a location, each with the spaces of one shard (key.Shard). Each
// holds a Lease for its number, which says of how many it is one, and acts only while it holds
// that. The agent of a whole location holds none: it acts only while there is none at all.
//
// What is kept: no two agents act for one space at a time. Each first writes its own Lease and
// then reads all others, so of two that begin together at least one sees the other. By whom a
// Lease is held is never judged by the time in it, but by for how long it was seen unchanged,
// by the reader's own clock; and a holder that could not renew it stops well before that time
// is over for anybody. See docs/design/shards.md.
//
// The package must never change anything at the cluster but Leases.
package fencing
