package controllers

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
	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
)

// Connections collects the locations whose sessions began or ended. It is safe for
// concurrent use.
type Connections struct {
	mu   sync.Mutex
	all  map[key.Location]struct{}
	wake chan struct{}
}

// NewConnections makes a Connections.
func NewConnections() *Connections {
	return &Connections{all: map[key.Location]struct{}{}, wake: make(chan struct{}, 1)}
}

// Note notes a location. It does not wait.
func (d *Connections) Note(l key.Location) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[l] = struct{}{}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Connections) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for l := range d.all {
		all = append(all, string(l))
	}
	clear(d.all)
	return all
}

// watch is the watch of the noted locations.
func (d *Connections) watch(ctx context.Context, enqueue func([]string)) error {
	for {
		select {
		case <-d.wake:
			enqueue(d.take())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// locations keeps the status of locations, and deletes what is kept of locations that
// are gone.
func (c *Controllers) locations() *controller {
	locations := key.ResourcePrefix(key.Root, key.Locations)
	enrolments := key.Enrolments.Prefix()
	return c.controller("locations", c.reconcileLocation, c.config.Connections.watch,
		c.follow(source{table.Under(locations), below(locations), byLocation}),
		c.follow(source{table.Under(enrolments), below(enrolments), byLocation}))
}

// byLocation names a change by the location that it is about.
func byLocation(ch table.Change) []string {
	if l, ok := key.LocationOf(ch.Row().Key); ok {
		return []string{string(l)}
	}
	return nil
}

func (c *Controllers) reconcileLocation(ctx context.Context, name string) error {
	l := key.Location(name)
	row, _ := c.config.Table.Get(l.Key())
	if row == nil {
		return c.forgetLocation(ctx, l)
	}
	open, seen := c.config.Sessions.Connected(l)
	away, wait := false, time.Duration(0)
	if !open {
		var err error
		if wait, err = c.grace(ctx, seen); err != nil {
			return err
		}
		away = wait <= 0 // until then the condition stays as it is
	}
	err := c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var location v1alpha1.Location
		if err := json.Unmarshal(object, &location); err != nil {
			return nil, fmt.Errorf("decode location %q: %w", l, err)
		}
		st := &location.Status
		if seen.Status != nil {
			st.Agent = agentStatus(seen.Status, func(s key.Space) bool { return c.hasOf(l, s) })
			st.Agent.SignedBy = seen.SignedBy
		}
		c.enrolled(&st.Conditions, row, l, seen.Opened)
		switch {
		case open:
			c.condition(&st.Conditions, row, metav1.Condition{
				Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: "Session", Message: "the agent holds a session"})
		case away:
			c.condition(&st.Conditions, row, metav1.Condition{
				Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: "Disconnected", Message: "no agent holds a session"})
		}
		c.compatible(&st.Conditions, row, seen)
		c.upsynced(&st.Conditions, row, &location.Spec, seen)
		return location.Status, nil
	})
	if err == nil && wait > 0 {
		return againError(wait)
	}
	return err
}

// enrolled sets the condition Enrolled by the record of the location's enrolment. Who had a
// session has joined, also by what former versions gave out.
func (c *Controllers) enrolled(all *[]metav1.Condition, row *table.Row, l key.Location, opened bool) {
	var value []byte
	if kept, _ := c.config.Table.Get(key.Enrolment(l)); kept != nil {
		value = kept.Value
	}
	record := enroll.ParseRecord(value, row.Meta.UID)
	condition := metav1.Condition{
		Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonJoined, Message: "an agent has joined",
	}
	switch why := record.Revoked; {
	case why != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonRevoked
		if why.Reused {
			condition.Reason = v1alpha1.ReasonCredentialReused
		}
		condition.Message = clip(why.Message) + "; to go on, run: orrery location token " + string(l)
	case !record.Enrolled() && !opened:
		return
	}
	c.condition(all, row, condition)
}

// grace is how long a location without a session may still stay away before it is
// declared lost. The time counts from when the agent could have connected.
func (c *Controllers) grace(ctx context.Context, seen agents.LastSeen) (time.Duration, error) {
	left := func() time.Duration {
		since := c.config.Answers()
		for _, t := range []time.Time{c.started, seen.Ended} {
			if t.After(since) {
				since = t
			}
		}
		return c.config.Disconnected - c.config.Now().Sub(since)
	}
	if wait := left(); wait > 0 {
		return wait, nil
	}
	// No agent can connect while the log does not answer, which may not be known yet.
	if err := c.config.Committed(ctx); err != nil {
		return 0, errLater
	}
	return left(), nil
}

// forgetLocation deletes the enrolment and the reports of a location that is gone.
func (c *Controllers) forgetLocation(ctx context.Context, l key.Location) error {
	snapshot := c.config.Table.Snapshot()
	var ops []store.Op
	if snapshot.Get(key.Enrolment(l)) != nil {
		ops = append(ops, store.Op{Key: key.Enrolment(l)})
	}
	snapshot.Ascend(key.LocationReports(l), func(row *table.Row) bool {
		ops = append(ops, store.Op{Key: row.Key})
		return true
	})
	c.config.Sessions.Forget(l)
	_, err := c.config.Log.Write(ctx, ops, store.Guard{Key: l.Key()})
	if errors.Is(err, store.ErrGuard) {
		return nil // created again meanwhile: an agent that joins clears old reports
	}
	return err
}
