package space

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/key"
)

// One waits for the other in the same space, not in another; what is left is nothing.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{of: map[key.Space]*turn{}}
		first, err := turns.lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := turns.lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.lock(ctx, "a"); err == nil {
			t.Error("two work on a space at once")
		}
		second := make(chan func())
		go func() {
			done, err := turns.lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			second <- done
		}()
		synctest.Wait()
		first()
		(<-second)()
		if len(turns.of) != 0 {
			t.Errorf("turns of %d spaces are kept", len(turns.of))
		}
	})
}
