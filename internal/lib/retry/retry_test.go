package retry_test

import (
	"testing"
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
