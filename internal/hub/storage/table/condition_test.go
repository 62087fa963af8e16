package table

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestNothingIsLostBeforeTheEnd shows that readers that subscribe while the object of their condition is
// deleted are all woken and end, and that none of them receives a later change.
func TestNothingIsLostBeforeTheEnd(t *testing.T) {
	const rounds, revisions, readers = 300, 30, 4
	gate, content := "o/root/orrery.dev/spaces/s", "o/s/core/configmaps/default/a"
	gone := errors.New("gone")
	for round := range rounds {
		table := New(Config{WindowSteps: 1000, WindowBytes: 1 << 20})
		table.Reset(1, []Update{{Key: gate, Value: []byte("{}"), CreateRev: 1, ModRev: 1}})
		last := int64(2 + round%(revisions-1))
		var opened [readers][]*Subscription
		var all sync.WaitGroup
		for i := range opened {
			all.Go(func() {
				for {
					sub, err := table.Subscribe(table.Rev(), []Condition{ObjectExists(gate, 1, gone)}, KeyTopic(content), PrefixTopic("o/s/"))
					if err != nil {
						if !errors.Is(err, gone) {
							t.Errorf("round %d: %v", round, err)
						}
						return
					}
					opened[i] = append(opened[i], sub)
				}
			})
		}
		for rev := int64(2); rev <= revisions; rev++ {
			updates := []Update{{Key: content, Value: fmt.Appendf(nil, "%d", rev), CreateRev: 2, ModRev: rev}}
			switch rev {
			case last:
				updates = append(updates, Update{Key: gate})
			case last + 1: // another object of the same name
				updates = append(updates, Update{Key: gate, Value: []byte("{}"), CreateRev: rev, ModRev: rev})
			}
			if err := table.Apply(rev, updates); err != nil {
				t.Fatal(err)
			}
		}
		all.Wait()
		for _, sub := range slices.Concat(opened[:]...) {
			if err := readUntil(sub, last); !errors.Is(err, gone) {
				t.Errorf("round %d: a reader ended by %v", round, err)
			}
			sub.Close()
		}
		if len(table.subs) != 0 {
			t.Fatalf("%d topics left", len(table.subs))
		}
	}
}

// readUntil reads until the error by a condition that held until before revision last.
func readUntil(sub *Subscription, last int64) error {
	for {
		select {
		case <-sub.Wake():
		default:
			return errors.New("nothing wakes it")
		}
		steps, upTo, err := sub.Poll()
		if err != nil {
			return err
		}
		for _, step := range steps {
			if step.Rev >= last || step.Rev > upTo || len(step.Changes) != 1 {
				return fmt.Errorf("%d changes at %d, up to %d, the condition ended at %d", len(step.Changes), step.Rev, upTo, last)
			}
		}
	}
}

// TestEndOfSeveral shows that if several conditions no longer hold, the first one that did not ends the
// subscription, and that a lagging reader gets this error without the steps before it.
func TestEndOfSeveral(t *testing.T) {
	table := New(Config{WindowSteps: 10 * catchUpSteps, WindowBytes: 1 << 30})
	apply := func(rev int64, k string, value []byte) {
		t.Helper()
		if err := table.Apply(rev, []Update{{Key: k, Value: value, CreateRev: 1, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	apply(1, "e/a", []byte("{}"))
	apply(2, "e/b", []byte("{}"))
	rev := int64(2)
	for range 3 * catchUpSteps {
		rev++
		apply(rev, "o/s/core/configmaps/default/a", []byte("{}"))
	}
	errA, errB := errors.New("a"), errors.New("b")
	sub, err := table.Subscribe(2, []Condition{ObjectExists("e/a", rev, errA), ObjectExists("e/b", rev, errB)}, PrefixTopic("o/s/"))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	apply(rev+1, "e/b", nil)
	apply(rev+2, "e/a", nil)
	if steps, upTo, err := sub.Poll(); len(steps) != catchUpSteps || upTo != catchUpSteps+2 || err != nil {
		t.Errorf("%d steps up to %d, %v", len(steps), upTo, err)
	}
	if steps, _, err := sub.Poll(); len(steps) != 0 || !errors.Is(err, errB) {
		t.Errorf("%d steps, %v; want the end", len(steps), err)
	}
	if _, err := table.Subscribe(rev, []Condition{ObjectExists("e/a", rev, errA)}, PrefixTopic("o/s/")); !errors.Is(err, errA) {
		t.Errorf("subscribed: %v", err)
	}
}

// TestEndedLosesNothing shows that a reader that calls Ended before Poll still receives all changes
// before the end and no later one.
func TestEndedLosesNothing(t *testing.T) {
	for _, before := range []int64{0, 1, queueLimit, 2 * queueLimit} {
		table := New(Config{WindowSteps: 1000, WindowBytes: 1 << 20})
		gate, content, gone := "e/a", "o/s/core/configmaps/default/a", errors.New("gone")
		table.Reset(1, []Update{{Key: gate, Value: []byte("{}"), CreateRev: 1, ModRev: 1}})
		sub, err := table.Subscribe(1, []Condition{ObjectExists(gate, 1, gone)}, PrefixTopic("o/s/"))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := sub.Poll(); err != nil {
			t.Fatal(err)
		}
		for rev := int64(2); rev < 10+before; rev++ {
			update := Update{Key: content, Value: []byte("{}"), CreateRev: 2, ModRev: rev}
			if rev == 2+before {
				update = Update{Key: gate}
			}
			if err := table.Apply(rev, []Update{update}); err != nil {
				t.Fatal(err)
			}
		}
		if err := sub.Ended(); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		var got []Step
		for {
			steps, _, err := sub.Poll()
			if err != nil {
				if !errors.Is(err, gone) {
					t.Errorf("ended by %v", err)
				}
				break
			}
			got = append(got, steps...)
		}
		if n := int64(len(got)); n != before || n > 0 && got[n-1].Rev != 1+before {
			t.Errorf("%d steps of %d before the end", n, before)
		}
		sub.Close()
	}
}
