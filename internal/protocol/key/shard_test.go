package key

import (
	"fmt"
	"testing"
)

// TestShards: each space is in exactly one shard, shards are about equal, and another number
// of them moves spaces only to the shards that are new, or from those that are no more.
func TestShards(t *testing.T) {
	const spaces = 20_000
	for count := 1; count < MaxShards; count++ {
		sizes := make([]int, count+1)
		moved := 0
		for i := range spaces {
			space := Space(fmt.Sprintf("team-%d", i))
			was, is := ShardOf(space, count), ShardOf(space, count+1)
			sizes[was]++
			if was != is {
				if moved++; is != count+1 {
					t.Fatalf("with %d shards instead of %d, %s moves from %d to %d", count+1, count, space, was, is)
				}
			}
			for k := 1; k <= count; k++ {
				if NewShard(k, count).Has(space) != (k == was) {
					t.Fatalf("%d/%d and %s, which is in %d", k, count, space, was)
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

// TestShardsStay: clusters have what other versions have decided.
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
