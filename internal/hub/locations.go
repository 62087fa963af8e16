package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agents"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
)

// dirtyLocations collects the locations whose sessions began or ended.
type dirtyLocations struct {
	mu   sync.Mutex
	all  map[key.Location]struct{}
	wake chan struct{}
}

func newDirtyLocations() *dirtyLocations {
	return &dirtyLocations{all: map[key.Location]struct{}{}, wake: make(chan struct{}, 1)}
}

func (d *dirtyLocations) add(l key.Location) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[l] = struct{}{}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *dirtyLocations) take() []key.Location {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []key.Location
	for l := range d.all {
		all = append(all, l)
	}
	clear(d.all)
	return all
}

// locationLoop keeps the conditions of locations, tells their agents of
// changes, and forgets what is kept of locations that are gone.
func (h *Hub) locationLoop(ctx context.Context) error {
	var c *controller
	c = newController("locations", h.table, h.config.Logger, func(ctx context.Context, name string) error {
		return h.reconcileLocation(ctx, c, key.Location(name))
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-h.dirty.wake:
				for _, l := range h.dirty.take() {
					c.queue.Add(string(l))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	locations := key.ResourcePrefix(key.Root, key.Locations)
	enrolments := string(key.Enrolments) + "/"
	return c.run(ctx,
		source{table.Under(locations), below(locations), byLocation},
		source{table.Under(enrolments), below(enrolments), byLocation})
}

// byLocation names a change by the location that it is about.
func byLocation(ch table.Change) []string {
	if l, ok := key.LocationOf(ch.Row().Key); ok {
		return []string{string(l)}
	}
	return nil
}

func (h *Hub) reconcileLocation(ctx context.Context, c *controller, l key.Location) error {
	h.sessions.Poke(l)
	row, _ := h.table.Get(l.Key())
	if row == nil {
		return h.forgetLocation(ctx, l)
	}
	open, seen := h.sessions.Connected(l)
	away := false
	if !open {
		wait, err := h.grace(ctx, seen)
		if err != nil {
			return err
		}
		if away = wait <= 0; !away { // it has time to come back before anything is said
			c.queue.AddAfter(string(l), wait)
		}
	}
	return h.updateStatus(ctx, row, func(object []byte) (any, error) {
		var location v1alpha1.Location
		if err := json.Unmarshal(object, &location); err != nil {
			return nil, fmt.Errorf("decode location %q: %w", l, err)
		}
		st := &location.Status
		if seen.Status != nil {
			st.Agent = agentStatus(seen.Status, func(s key.Space) bool { return h.hasOf(l, s) })
		}
		if seen.Opened {
			h.condition(&st.Conditions, row, metav1.Condition{
				Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue, Reason: "Joined", Message: "an agent has shown the location's token"})
		}
		switch {
		case open:
			h.condition(&st.Conditions, row, metav1.Condition{
				Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: "Session", Message: "the agent holds a session"})
		case away:
			h.condition(&st.Conditions, row, metav1.Condition{
				Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: "Disconnected", Message: "no agent holds a session"})
		}
		h.compatible(&st.Conditions, row, seen)
		return location.Status, nil
	})
}

// grace is how long a location without a session may still stay away before it is
// declared lost: the time counts from when it could have come back.
func (h *Hub) grace(ctx context.Context, seen agents.LastSeen) (time.Duration, error) {
	left := func() time.Duration {
		since, _ := h.answers.state()
		for _, t := range []time.Time{h.started, seen.Ended} {
			if t.After(since) {
				since = t
			}
		}
		return h.config.Disconnected - h.config.Now().Sub(since)
	}
	if wait := left(); wait > 0 {
		return wait, nil
	}
	// Nobody can connect while the log is away, and nobody may have asked it.
	if err := h.waitCommitted(ctx); err != nil {
		return 0, errLater
	}
	return left(), nil
}

// forgetLocation deletes the enrolment and the reports of a location that is gone.
func (h *Hub) forgetLocation(ctx context.Context, l key.Location) error {
	snapshot := h.table.Snapshot()
	var ops []store.Op
	if snapshot.Get(key.Enrolment(l)) != nil {
		ops = append(ops, store.Op{Key: key.Enrolment(l)})
	}
	snapshot.Ascend(key.LocationReports(l), func(row *table.Row) bool {
		ops = append(ops, store.Op{Key: row.Key})
		return true
	})
	h.sessions.Forget(l)
	_, err := h.log.Write(ctx, ops, store.Guard{Key: l.Key()})
	if errors.Is(err, store.ErrGuard) {
		return nil // made again meanwhile: an agent that joins clears its reports
	}
	return err
}
