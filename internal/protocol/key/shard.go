package key

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// MaxShards is the maximum number of agents that share a location.
const MaxShards = 32

// Shard is one of the agents that share a location: number Index, from 1, of Count. It serves the
// spaces with that ShardOf. The zero value is the whole: the only agent of a location.
type Shard struct{ Index, Count int }

// ParseShard parses K/N. 1/1 is the whole.
func ParseShard(s string) (Shard, error) {
	k, n, ok := strings.Cut(s, "/")
	index, errIndex := strconv.Atoi(k)
	count, errCount := strconv.Atoi(n)
	if !ok || errIndex != nil || errCount != nil || index < 1 || count < index || count > MaxShards || s != fmt.Sprintf("%d/%d", index, count) {
		return Shard{}, fmt.Errorf("shard %.20q: want K/N, as 2/3, with K from 1 to N, and N at most %d", s, MaxShards)
	}
	return NewShard(index, count), nil
}

// NewShard returns shard index of count.
func NewShard(index, count int) Shard {
	if count <= 1 {
		return Shard{}
	}
	return Shard{index, count}
}

// Whole reports whether the shard is the whole location.
func (s Shard) Whole() bool { return s.Count <= 1 }

// Number returns the number of the agent, from 1. The agent of the whole location is number 1, too.
func (s Shard) Number() int { return max(1, s.Index) }

// Total returns the number of agents that share the location.
func (s Shard) Total() int { return max(1, s.Count) }

// String returns K/N.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Number(), s.Total()) }

// MarshalText encodes the shard like String.
func (s Shard) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes the output of MarshalText.
func (s *Shard) UnmarshalText(b []byte) (err error) {
	*s, err = ParseShard(string(b))
	return err
}

// Contains reports whether a space belongs to the shard.
func (s Shard) Contains(space Space) bool { return s.Whole() || ShardOf(space, s.Count) == s.Index }

// ShardOf returns the number, from 1, of a space's shard if there are count shards. It is the shard
// with the highest score for the space (rendezvous hashing). If shards are added, spaces move only
// to the new ones; if shards are removed, only their spaces move. With one more shard, one in N+1
// spaces moves on average. The function must never change: agents and hubs of several versions, and
// objects in clusters, depend on it.
func ShardOf(space Space, count int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(space)) // a hash accepts every write
	spaceHash := h.Sum64()
	best, most := 1, uint64(0)
	for k := 1; k <= count; k++ {
		if score := mix(spaceHash + uint64(k)*0x9e3779b97f4a7c15); score > most {
			best, most = k, score
		}
	}
	return best
}

// mix spreads the bits of a hash (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	const first, second, shift = 0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53, 33
	h ^= h >> shift
	h *= first
	h ^= h >> shift
	h *= second
	return h ^ h>>shift
}
