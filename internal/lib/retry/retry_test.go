package retry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
)

func TestBackoff(t *testing.T) {
	const first, most = 100 * time.Millisecond, time.Minute
	for failures, want := range map[uint8]time.Duration{0: first, 3: 8 * first, 9: 512 * first, 10: most, 255: most} {
		for range 100 {
			if got := retry.Backoff(failures, first, most); got > want || got < want-want/4 {
				t.Fatalf("after %d failures: %s, want up to a quarter less than %s", failures, got, want)
			}
		}
	}
}

func TestSignal(t *testing.T) {
	s := retry.NewSignal()
	s.Raise()
	s.Raise() // and does not wait
	<-s
	select {
	case <-s:
		t.Error("two signals are received, want one")
	default:
	}
}

// TestSignalRun shows that work is repeated after errors, with the pauses that are asked for, and done once for each
// signal.
func TestSignalRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, begun := retry.NewSignal(), time.Now()
		var calls []time.Duration
		var counts []uint8
		go s.Run(ctx, func(context.Context) error {
			if calls = append(calls, time.Since(begun)); len(calls) < 3 {
				return errors.New("not yet")
			}
			return nil
		}, func(_ error, failures uint8) time.Duration {
			counts = append(counts, failures)
			return time.Second << failures
		})
		<-time.After(time.Second)
		s.Raise()
		<-time.After(time.Minute)
		s.Raise()
		synctest.Wait()
		if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 61 * time.Second}; !slices.Equal(calls, want) {
			t.Errorf("called after %s, want %s", calls, want)
		}
		if !slices.Equal(counts, []uint8{0, 1}) {
			t.Errorf("failures %v", counts)
		}
	})
}
