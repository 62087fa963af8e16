package store

import (
	"fmt"
	"slices"
	"testing"
)

// TestChangesOfWhatWasSeen shows that a change is made only if its key was not written
// since it was read, each change by itself, in transactions as large as etcd allows.
func TestChangesOfWhatWasSeen(t *testing.T) {
	l := open(t, t.TempDir())
	const n = maxBatchOps + 1
	changes := make([]Change, n)
	guards := make([]Guard, maxBatchOps)
	for i := range changes {
		changes[i] = Change{Op: Op{Key: fmt.Sprintf("r/l/%03d", i), Value: []byte("1")}}
	}
	for i := range guards {
		guards[i] = Guard{Key: fmt.Sprintf("o/none/%03d", i)}
	}
	first, stale, err := l.WriteChanges(t.Context(), changes, guards...)
	if err != nil || len(stale) > 0 {
		t.Fatalf("the first changes: %v, stale %q", err, stale)
	}
	changes[0].Seen, changes[0].Value = first-1, []byte("2") // in the first of two transactions
	changes[1].Seen, changes[1].Value = first-1, nil
	changes[2].Seen, changes[2].Keep = first-1, true
	changes[3].Keep = true // which was not there when it was seen
	rev, stale, err := l.WriteChanges(t.Context(), changes[:5], guards...)
	if want := []string{changes[3].Key, changes[4].Key}; err != nil || !slices.Equal(stale, want) {
		t.Fatalf("%v, stale %q, want %q", err, stale, want)
	}
	if rev != first+1 {
		t.Errorf("the changes are at revision %d, want %d", rev, first+1)
	}
	// What is only kept writes nothing.
	keep := []Change{{Op: Op{Key: changes[2].Key}, Seen: first - 1, Keep: true}}
	if after, stale, err := l.WriteChanges(t.Context(), keep, guards...); err != nil || len(stale) > 0 || after != rev {
		t.Errorf("keep: revision %d, want %d, stale %q, %v", after, rev, stale, err)
	}
}
