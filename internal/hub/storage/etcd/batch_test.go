package etcd

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/test/support/seeds"
)

// TestChangesOfWhatWasSeen shows that a change is made only if its key was not written
// since it was read, independently of other changes, in transactions as large as etcd allows.
func TestChangesOfWhatWasSeen(t *testing.T) {
	l := open(t, t.TempDir())
	const n = maxBatchOps + 1
	changes := make([]Change, n)
	for i := range changes {
		changes[i] = Change{Op: Op{Key: fmt.Sprintf("r/l/%03d", i), Value: []byte("1")}, While: Guard{Key: fmt.Sprintf("o/none/%03d", i)}}
	}
	last, stale, err := l.WriteChanges(t.Context(), changes)
	first := last - 1
	if err != nil || len(stale) > 0 {
		t.Fatalf("the first changes: %v, stale %q", err, stale)
	}
	changes[0].Seen, changes[0].Value = first, []byte("2") // in the first of two transactions
	changes[1].Seen, changes[1].Value = first, nil
	changes[2].Seen, changes[2].Keep = first, true
	changes[3].Keep = true // of a key that did not exist when it was read
	rev, stale, err := l.WriteChanges(t.Context(), changes[:5])
	if want := []string{changes[3].Key, changes[4].Key}; err != nil || !slices.Equal(stale, want) {
		t.Fatalf("%v, stale %q, want %q", err, stale, want)
	}
	if rev != last+1 {
		t.Errorf("the changes are at revision %d, want %d", rev, last+1)
	}
	// A change with Keep writes nothing.
	keep := []Change{{Op: Op{Key: changes[2].Key}, Seen: first, Keep: true}}
	if after, stale, err := l.WriteChanges(t.Context(), keep); err != nil || len(stale) > 0 || after != rev {
		t.Errorf("keep: revision %d, want %d, stale %q, %v", after, rev, stale, err)
	}
}

// TestChangesOfManyShareTransactions shows that as many changes as the limits of etcd allow share a
// transaction, even if each has a guard of its own: a full batch in an embedded etcd, and fewer in an
// external one.
func TestChangesOfManyShareTransactions(t *testing.T) {
	l := open(t, t.TempDir())
	changes := make([]Change, maxBatchOps)
	for i := range changes {
		changes[i] = Change{Op: Op{Key: fmt.Sprintf("r/l/%03d", i), Value: []byte("1")}, While: Guard{Key: fmt.Sprintf("o/none/%03d", i)}}
	}
	if n := batchSize(changes, true); n != len(changes) {
		t.Errorf("embedded: %d", n)
	}
	if n := batchSize(changes, false); n != maxCompares/2 {
		t.Errorf("in a cluster: %d", n)
	}
	changes[7].Seen = 1 // so that WriteChanges reads all keys
	if _, stale, err := l.WriteChanges(t.Context(), changes); err != nil || !slices.Equal(stale, []string{changes[7].Key}) {
		t.Errorf("stale %q, %v", stale, err)
	}
}

// TestGuardsOfChanges shows that a change whose guard does not hold is omitted, and only that change.
func TestGuardsOfChanges(t *testing.T) {
	l := open(t, t.TempDir())
	changes := []Change{
		{Op: Op{Key: "r/l/0", Value: []byte("1")}, Seen: 7},
		{Op: Op{Key: "r/l/1", Value: []byte("1")}, While: Guard{Key: "o/none"}},
		{Op: Op{Key: "r/l/2", Value: []byte("1")}, While: Guard{Key: "o/none", CreateRev: 1}},
		{Op: Op{Key: "r/l/3", Value: []byte("1")}},
	}
	if _, stale, err := l.WriteChanges(t.Context(), changes); err != nil || !slices.Equal(stale, []string{"r/l/0", "r/l/2"}) {
		t.Errorf("stale %q, %v", stale, err)
	}
	r, err := l.Client().Client.Get(t.Context(), Prefix+"r/", clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 2 || string(r.Kvs[0].Key) != Prefix+"r/l/1" || string(r.Kvs[1].Key) != Prefix+"r/l/3" {
		t.Errorf("there are %v, %v", r.Kvs, err)
	}
}

// TestChangesContended shows that of several writers that increment the same counters, none
// overwrites the increment of another, and all make progress.
func TestChangesContended(t *testing.T) {
	const keys, writers, rounds = 8, 4, 25
	l := open(t, t.TempDir())
	k := func(i int) string { return fmt.Sprint("r/l/", i) }
	var group errgroup.Group
	for range writers {
		group.Go(func() error {
			left := map[string]int{}
			for i := range keys {
				left[k(i)] = rounds
			}
			for len(left) > 0 {
				var changes []Change
				for key := range seeds.Ordered(left) {
					r, err := l.Client().Client.Get(t.Context(), Prefix+key)
					if err != nil {
						return err
					}
					c := Change{Op: Op{Key: key, Value: []byte("1")}}
					if len(r.Kvs) > 0 {
						n, err := strconv.Atoi(string(r.Kvs[0].Value))
						if err != nil {
							return err
						}
						c.Seen, c.Value = r.Kvs[0].ModRevision, []byte(strconv.Itoa(n+1))
					}
					changes = append(changes, c)
				}
				_, stale, err := l.WriteChanges(t.Context(), changes)
				if err != nil {
					return err
				}
				for _, c := range changes {
					if slices.Contains(stale, c.Key) {
						continue
					}
					if left[c.Key]--; left[c.Key] == 0 {
						delete(left, c.Key)
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		r, err := l.Client().Client.Get(t.Context(), Prefix+k(i))
		if err != nil || len(r.Kvs) == 0 || string(r.Kvs[0].Value) != strconv.Itoa(writers*rounds) {
			t.Errorf("%s is %v, want %d, %v", k(i), r.Kvs, writers*rounds, err)
		}
	}
}
