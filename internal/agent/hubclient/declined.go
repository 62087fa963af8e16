package hubclient

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/agent/store"
)

const (
	// declinedRetry is how long reports wait that the hub did not take, and that are of no
	// placed object; declinedTries is how often they are sent again.
	declinedRetry = 15 * time.Second
	declinedTries = 4
	// maxDeclined bounds how many such reports are remembered. The others are sent when they
	// change, or when hub and agent next compare their reports.
	maxDeclined = 10000
)

// declined are reports of what was not placed that the hub did not take: another hub than the
// one that asks may not know yet that it does. They must not hold up the reports of placed
// objects, so they are sent again later, and only as long as the agent has them.
type declined struct {
	lines map[string]struct{}
	tries int
	due   <-chan time.Time
}

// note takes note of an answer of the hub.
func (d *declined) note(batch []store.Unsent, refused map[string]bool) {
	for _, u := range batch {
		k := u.Line.Key
		if !refused[k] {
			delete(d.lines, k)
			continue
		}
		if u.Line.Report == nil || store.IsPlaced(k) || d.tries >= declinedTries || len(d.lines) >= maxDeclined {
			continue
		}
		if d.lines == nil {
			d.lines = map[string]struct{}{}
		}
		d.lines[k] = struct{}{}
		if d.due == nil {
			d.due = time.After(declinedRetry)
		}
	}
	if len(d.lines) == 0 && d.due == nil {
		d.tries = 0
	}
}

// again has the reports sent again that the agent still has.
func (d *declined) again(ctx context.Context, st *store.Store) error {
	lines := d.lines
	d.lines, d.due, d.tries = nil, nil, d.tries+1
	if len(lines) == 0 {
		d.tries = 0
		return nil
	}
	return st.WriteWithOthers(ctx, func(t *store.Tx) error {
		for k := range lines {
			if !t.HasReport(k) {
				continue
			}
			if err := t.MarkUnsent(k); err != nil {
				return err
			}
		}
		return nil
	})
}
