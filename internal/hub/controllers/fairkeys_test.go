package controllers

import (
	"fmt"
	"slices"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestKeysOfSpacesShare: a space with many keys delays a key of another space by one key of its own. A key that waits
// already is not added again, and one that is added while it is reconciled follows the other keys of its space.
func TestKeysOfSpacesShare(t *testing.T) {
	const many = 100
	keyOf := func(s key.Space, name string) string { return placementKey(s, name) }
	q := newQueue()
	defer q.ShutDown()
	for range 2 {
		for i := range many {
			q.Add(keyOf("s1", fmt.Sprint("p", i)))
		}
	}
	q.Add(keyOf("s2", "p"))
	q.Add("a location")
	q.Add(keyOf("s2", "q"))
	var got []string
	for i := range many + 3 {
		k, _ := q.Get()
		if got = append(got, k); i == 0 {
			q.Add(k)
		}
		q.Done(k)
	}
	want := []string{keyOf("s1", "p0"), keyOf("s2", "p"), "a location", keyOf("s1", "p1"), keyOf("s2", "q"), keyOf("s1", "p2"), keyOf("s1", "p3")}
	if !slices.Equal(got[:len(want)], want) {
		t.Errorf("the order is %q, want %q", got[:len(want)], want)
	}
	if k, _ := q.Get(); k != keyOf("s1", "p0") || q.Len() != 0 {
		t.Errorf("the last key is %s of %d", k, q.Len()+1)
	}
}

func placementKey(s key.Space, name string) string {
	return key.Placement{Space: s, Name: name}.Object().Key()
}
