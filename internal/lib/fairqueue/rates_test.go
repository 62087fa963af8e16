package fairqueue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestRates: a flow that exceeds its rate gets the time to retry, other flows are not delayed, and
// idle flows use no memory.
func TestRates(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRates(100, 500)
	r.now = func() time.Time { return now }
	if err := r.Wait(t.Context(), "a", 500, time.Second); err != nil {
		t.Fatalf("the burst: %v", err)
	}
	err := r.Wait(t.Context(), "a", 300, time.Second)
	var status apierrors.APIStatus
	if !apierrors.IsTooManyRequests(err) || !errors.As(err, &status) || status.Status().Details.RetryAfterSeconds != 3 {
		t.Fatalf("300 more: %v", err)
	}
	if err := r.Wait(t.Context(), "b", 500, time.Second); err != nil {
		t.Fatalf("another user: %v", err)
	}
	r.Count("c", 500)
	r.Count("c", 200)
	if err := r.Begin("c"); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("in debt: %v", err)
	}
	now = now.Add(2 * time.Second)
	if err := r.Begin("c"); err != nil {
		t.Fatalf("after the debt: %v", err)
	}
	if r.Refusals() != 2 {
		t.Errorf("%d refusals", r.Refusals())
	}
	now = now.Add(time.Hour)
	for i := range 10 * firstSweep {
		_ = r.Begin(fmt.Sprint("other-", i))
	}
	if len(r.all) > firstSweep+1 {
		t.Errorf("%d are remembered", len(r.all))
	}
}
