package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// paced does things 0 to n-1 at a steady rate: each begins when it is due, whether or not
// those before are done, as long as a worker is free. It returns when the first was due.
// A time that is measured from when a thing was due includes the wait for a worker, so a
// server that is slow for a while can't hide what it held up.
func paced[W any](ctx context.Context, workers []W, n, rate int, do func(ctx context.Context, w W, i int) error) (time.Time, error) {
	begin := time.Now()
	return begin, share(ctx, workers, n, func(ctx context.Context, w W, i int) error {
		if !wait(ctx, time.Until(dueAt(begin, i, rate))) {
			return ctx.Err()
		}
		return do(ctx, w, i)
	})
}

func dueAt(begin time.Time, i, rate int) time.Time {
	return begin.Add(lasts(i, rate))
}

// lasts is how long n things at a rate take.
func lasts(n, rate int) time.Duration { return time.Duration(n) * time.Second / time.Duration(rate) }

// pacedWorkers is how many edits may be under way at once.
const pacedWorkers = 64

// workersOf are clients, each as often as it takes to have enough.
func workersOf(clients []*client) []*client {
	all := make([]*client, pacedWorkers)
	for i := range all {
		all[i] = clients[i%len(clients)]
	}
	return all
}

// editMark is before the number in the value of an object that is edited.
const editMark = "edit-"

func editPatch(i int) string { return fmt.Sprintf(`{"data":{"value":"%s%d"}}`, editMark, i) }

// editOf is the number of the edit that an object has seen; false: none.
func editOf(object []byte) (int, bool) {
	if !bytes.Contains(object, []byte(editMark)) {
		return 0, false
	}
	value := gjson.GetBytes(object, "data.value").String()
	if len(value) < len(editMark) {
		return 0, false
	}
	i, err := strconv.Atoi(value[len(editMark):])
	return i, err == nil
}

// paceTimes are the times in milliseconds from when each edit was due until it was seen.
func paceTimes(begin time.Time, rate int, seen []time.Time) []float64 {
	all := make([]time.Duration, len(seen))
	for i := range seen {
		all[i] = seen[i].Sub(dueAt(begin, i, rate))
	}
	return milliseconds(all)
}

// sightings notes when each of n edits was first seen.
type sightings struct {
	times []time.Time
	left  int
}

func newSightings(n int) *sightings { return &sightings{times: make([]time.Time, n), left: n} }

// see notes what an object shows; done: nothing is left to be seen.
func (s *sightings) see(object []byte, arrived time.Time) (done bool) {
	if i, ok := editOf(object); ok && i < len(s.times) && s.times[i].IsZero() {
		s.times[i], s.left = arrived, s.left-1
	}
	return s.left == 0
}
