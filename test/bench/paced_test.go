package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A thing that begins late, because those before take long, is timed from when it was
// due.
func TestPacedTimesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, rate = 4, 10
		seen := newSightings(n)
		begin, err := paced(t.Context(), make([]struct{}, 1), n, rate, func(ctx context.Context, _ struct{}, i int) error {
			wait(ctx, 250*time.Millisecond)
			if done := seen.see([]byte(editPatch(i)), time.Now()); done != (i == n-1) {
				t.Errorf("edit %d: done is %t", i, done)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range paceTimes(begin, rate, seen.times) {
			if want := float64(250 + i*150); got != want {
				t.Errorf("edit %d took %g ms, want %g", i, got, want)
			}
		}
	})
}

func TestOnlyTheFirstSightOfAnEditCounts(t *testing.T) {
	seen, start := newSightings(2), time.Now()
	for i, object := range []string{editPatch(0), `{"data":{"value":"wanted"}}`, editPatch(7), editPatch(0)} {
		if seen.see([]byte(object), start.Add(time.Duration(i))) {
			t.Errorf("after %s all is seen", object)
		}
	}
	if !seen.times[0].Equal(start) || !seen.times[1].IsZero() {
		t.Errorf("seen at %v", seen.times)
	}
}
