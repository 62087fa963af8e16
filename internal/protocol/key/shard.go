package key

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// MaxShards is how many agents can share a location.
const MaxShards = 32

// Shard is the part of a location that one of several agents has: the spaces that fall to
// number Index, from 1, of Count. The zero value is the whole: the one agent of a location.
type Shard struct{ Index, Count int }

// ParseShard reads K/N. 1/1 is the whole.
func ParseShard(s string) (Shard, error) {
	k, n, ok := strings.Cut(s, "/")
	index, errIndex := strconv.Atoi(k)
	count, errCount := strconv.Atoi(n)
	if !ok || errIndex != nil || errCount != nil || index < 1 || count < index || count > MaxShards || s != fmt.Sprintf("%d/%d", index, count) {
		return Shard{}, fmt.Errorf("shard %.20q: want K/N, as 2/3, with K from 1 to N, and N at most %d", s, MaxShards)
	}
	return NewShard(index, count), nil
}

// NewShard is number index of count.
func NewShard(index, count int) Shard {
	if count <= 1 {
		return Shard{}
	}
	return Shard{index, count}
}

// Whole says that it is all of the location.
func (s Shard) Whole() bool { return s.Count <= 1 }

// Number is which of the location's agents has it, from 1. The agent that has the whole is
// number 1, too.
func (s Shard) Number() int { return max(1, s.Index) }

// Of is how many agents share the location.
func (s Shard) Of() int { return max(1, s.Count) }

// String is K/N.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Number(), s.Of()) }

// MarshalText encodes as String does.
func (s Shard) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes what MarshalText encodes.
func (s *Shard) UnmarshalText(b []byte) (err error) {
	*s, err = ParseShard(string(b))
	return err
}

// Has says whether a space falls to the shard.
func (s Shard) Has(space Space) bool { return s.Whole() || ShardOf(space, s.Count) == s.Index }

// ShardOf is the number, from 1, of the shard that a space falls to if there are count. It is
// the one that scores highest for the space (rendezvous hashing), so when shards are added,
// spaces move to the new ones only, and when some are taken away, only theirs move: of N+1
// shards, one in N+1 spaces on the average. It must never change: agents and hubs of several
// versions, and what stands at clusters, go by it.
func ShardOf(space Space, count int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(space)) // a hash takes every write
	of := h.Sum64()
	best, most := 1, uint64(0)
	for k := 1; k <= count; k++ {
		if score := mix(of + uint64(k)*0x9e3779b97f4a7c15); score > most {
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
