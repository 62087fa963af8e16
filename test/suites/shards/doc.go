// Package shards runs agents that share a location with a real cluster. The audit log of the cluster
// records which agent wrote which object; no agent ever writes an object of another shard.
package shards
