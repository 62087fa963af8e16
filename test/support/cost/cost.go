// Package cost bounds the processor time of code in tests by that of other code, and its memory by the
// bytes that it allocates, so that the bounds are the same on slow and busy machines.
package cost

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

const (
	// attempts is how often the code is measured before a test fails: caches and the garbage collector
	// disturb a measurement.
	attempts = 5
	// enough is a processor time that the clock measures well.
	enough = 20 * time.Millisecond
	// ofThread is RUSAGE_THREAD of Linux, which package syscall does not have.
	ofThread = 1
)

// Within fails the test if f takes more than most times the processor time of reference. Callers choose a limit that is
// far from both: code that reads its input once stays well below it, and code that reads it once per level is far above.
// Both must do their work in the goroutine that calls them.
func Within(t testing.TB, most int, reference, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took, allowed time.Duration
	for range attempts {
		allowed = repeated(t, reference) * time.Duration(most)
		if took = measure(t, f); took <= allowed {
			return
		}
	}
	t.Errorf("it took %s of processor time, which is more than %d times that of the reference, %s", took, most, allowed/time.Duration(most))
}

// repeated measures f by as many calls as the resolution of the clock needs.
func repeated(t testing.TB, f func()) time.Duration {
	t.Helper()
	for times := 1; ; times *= 2 {
		took := measure(t, func() {
			for range times {
				f()
			}
		})
		if took >= enough {
			return took / time.Duration(times)
		}
	}
}

func measure(t testing.TB, f func()) time.Duration {
	t.Helper()
	begin := used(t)
	f()
	return used(t) - begin
}

// used is the processor time of the thread since its start.
func used(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(ofThread, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Allocated returns how many bytes the process allocates while f runs. No other test may run meanwhile.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
