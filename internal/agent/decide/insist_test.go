package decide

import (
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/store"
)

func TestInsistence(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	i := Insistence{First: 10 * time.Second, Started: start}
	var m *store.Mutation
	for n, seconds := range []int{10, 20, 40, 80, 160, 320, 600, 600, 600} {
		most := time.Duration(seconds) * time.Second
		m = i.After(m, ".spec.replicas", start)
		if wait := i.Wait(m, "x", start); int(m.Tries) != n || wait > most || wait < most*3/4-time.Millisecond {
			t.Errorf("after %d tries it waits for %s, want %s", m.Tries, wait, most)
		}
	}
	if wait := i.Wait(m, "x", m.Due); wait != 0 {
		t.Errorf("when it is due it waits for %s", wait)
	}
	if wait := i.Wait(m, "x", start.Add(-24*time.Hour)); wait != 0 {
		t.Errorf("with a clock set back it waits for %s", wait)
	}
	// Retries that came due while no agent ran do not all happen at once.
	later := Insistence{First: i.First, Started: start.Add(time.Hour)}
	soon := 0
	for n := range 1000 {
		if later.Wait(m, fmt.Sprint(n), later.Started) < time.Minute {
			soon++
		}
	}
	if soon < 50 || soon > 200 {
		t.Errorf("%d of 1000 come in the first of ten minutes", soon)
	}
}
