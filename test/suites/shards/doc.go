// Package shards runs agents that share a location on a real cluster, whose audit log says
// which of them has written what, and shows that none ever writes what is another's.
package shards
