package write

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestLocks checks that callers wait for each other in the same space only, and that no lock is kept
// afterwards.
func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newLocks(1)
		first, err := all.acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := all.acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := all.acquire(ctx, "a"); err == nil {
			t.Error("two hold the lock of one space")
		}
		second := make(chan func())
		go func() {
			done, err := all.acquire(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			second <- done
		}()
		synctest.Wait()
		first()
		(<-second)()
		if len(all.bySpace) != 0 {
			t.Errorf("locks of %d spaces are kept", len(all.bySpace))
		}
	})
}

// TestLocksForTwo checks a lock with two holders.
func TestLocksForTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newLocks(2)
		acquired := make(chan func())
		for range 3 {
			go func() {
				done, err := all.acquire(t.Context(), "a")
				if err != nil {
					t.Error(err)
				}
				acquired <- done
			}()
		}
		first, second := <-acquired, <-acquired
		synctest.Wait()
		select {
		case <-acquired:
			t.Error("three hold the lock of one space")
		default:
		}
		first()
		(<-acquired)()
		second()
		if len(all.bySpace) != 0 {
			t.Errorf("locks of %d spaces are kept", len(all.bySpace))
		}
	})
}
