package key

import (
	"fmt"
	"testing"
)

// TestShards: each space is in exactly one shard, and shards are about equal. Another number of
// shards moves spaces only to new shards, or from removed ones.
func TestShards(t *testing.T) {
	const spaces = 20_000
	for count := 1; count < MaxShards; count++ {
		sizes := make([]int, count+1)
		moved := 0
		for i := range spaces {
			space := Space(fmt.Sprintf("team-%d", i))
			before, is := ShardOf(space, count), ShardOf(space, count+1)
			sizes[before]++
			if before != is {
				if moved++; is != count+1 {
					t.Fatalf("with %d shards instead of %d, %s moves from %d to %d", count+1, count, space, before, is)
				}
			}
			for k := 1; k <= count; k++ {
				if NewShard(k, count).Contains(space) != (k == before) {
					t.Fatalf("%d/%d and %s, which is in %d", k, count, space, before)
				}
			}
		}
		if fair := spaces / (count + 1); moved < fair*8/10 || moved > fair*12/10 {
			t.Errorf("from %d to %d shards %d of %d spaces move", count, count+1, moved, spaces)
		}
		for k, n := range sizes[1:] {
			if fair := spaces / count; n < fair*8/10 || n > fair*12/10 {
				t.Errorf("shard %d/%d has %d of %d spaces", k+1, count, n, spaces)
			}
		}
	}
}

// TestShardsStay: the shard of a space equals that of other versions, which clusters depend on.
func TestShardsStay(t *testing.T) {
	for space, want := range map[Space][]int{"root": {1, 3, 10}, "team-a": {1, 3, 28}, "team-b": {1, 1, 29}, "payments": {1, 2, 11}} {
		for i, count := range []int{1, 3, 32} {
			if got := ShardOf(space, count); got != want[i] {
				t.Errorf("%s of %d: %d, want %d", space, count, got, want[i])
			}
		}
	}
}

func TestParseShard(t *testing.T) {
	for text, want := range map[string]Shard{"1/1": {}, "2/3": {2, 3}, "32/32": {32, 32}} {
		got, err := ParseShard(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "0/1", "2/1", "1/33", "-1/2", "01/2", "1/2/3", "+1/2", " 1/2"} {
		if got, err := ParseShard(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
