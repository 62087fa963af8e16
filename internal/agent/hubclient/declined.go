package hubclient

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/agent/store"
)

const (
	// declinedRetry is the wait before a declined report is sent again; declinedTries is the
	// maximum number of repetitions.
	declinedRetry = 15 * time.Second
	declinedTries = 4
	// maxDeclined bounds the number of declined reports. Further ones are sent when they
	// change, or after the next comparison of the reports.
	maxDeclined = 10000
)

// declined are reports of upsynced and associated objects that the hub has rejected. The hub
// may not know yet that another hub has requested them. They must not delay the reports of
// placed objects, so they are sent again later, and only as long as the agent has them.
type declined struct {
	lines map[string]struct{}
	tries int
	due   <-chan time.Time
}

// record updates the declined reports after a response to a batch.
func (d *declined) record(batch []store.Unsent, refused map[string]bool) {
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

// again marks the declined reports that the agent still has as unsent.
func (d *declined) again(ctx context.Context, st *store.Store) error {
	lines := d.lines
	d.lines, d.due, d.tries = nil, nil, d.tries+1
	if len(lines) == 0 {
		d.tries = 0
		return nil
	}
	return st.WriteWithOthers(ctx, func(t *store.Tx) error {
		for k := range lines {
			if !t.Reports.Contains(k) {
				continue
			}
			if err := t.Reports.MarkUnsent(k); err != nil {
				return err
			}
		}
		return nil
	})
}
