package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// locationConfig contains the dependencies of the locationController.
type locationConfig struct {
	Table  *table.Table
	Log    *etcd.Log
	Status *statusWriter
	// Connected reports whether an agent has a session at this hub. Gone returns since
	// when an agent has had no session at any hub, as far as this process knows; zero if it has one.
	Connected func(key.Session) (open bool, seen agentapi.LastSeen)
	Gone      func(key.Session) time.Time
	// Answers returns since when the log has been available: zero if always, and the current time
	// if it is not. CheckLog waits until the table contains all writes that were acknowledged
	// before the call; it fails if the log is not available.
	Answers  func() time.Time
	CheckLog func(context.Context) error
	// Disconnected is how long a location may be without a session before it counts as
	// disconnected.
	Disconnected time.Duration
	Now          func() time.Time
}

// locationController updates the status of Locations, and deletes the data of deleted ones. Its keys
// are the names of locations.
type locationController struct {
	config locationConfig
	// started is when the hub started: no location counts as disconnected before its agent had time
	// to connect.
	started time.Time
}

func newLocationController(config locationConfig) *locationController {
	return &locationController{config, config.Now()}
}

func (c *locationController) watches() []watch {
	prefixes := []string{key.ResourcePrefix(key.Root, key.Locations), key.Enrolments.Prefix(), key.Sessions.Prefix(), key.AgentStatuses.Prefix()}
	return []watch{follow(c.config.Table, source{prefixTopics(prefixes...), below(prefixes...), byLocation})}
}

// byLocation enqueues the location of a change.
func byLocation(ch table.Change) []string {
	if l, ok := key.LocationOf(ch.Row().Key); ok {
		return []string{string(l)}
	}
	return nil
}

func (c *locationController) reconcile(ctx context.Context, name string) error {
	l := key.Location(name)
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(l.Key())
	if row == nil {
		return c.forget(ctx, l)
	}
	seen := sightingOf(snapshot, l, row)
	disconnected, wait := false, time.Duration(0)
	if seen.session == nil {
		var err error
		if wait, err = c.grace(ctx, seen.missing); err != nil {
			return err
		}
		disconnected = wait <= 0 // until then the condition does not change
	}
	err := c.config.Status.update(ctx, row, func(object []byte) (any, error) {
		var location v1alpha1.Location
		if err := json.Unmarshal(object, &location); err != nil {
			return nil, fmt.Errorf("decode location %q: %w", l, err)
		}
		st := &location.Status
		if status := seen.reported; status != nil && status.Status != nil {
			st.Agent = agentStatus(status.Status, func(s key.Space) bool { return c.hasReportsFrom(l, s) })
			st.Agent.SignedBy = status.SignedBy
		}
		if st.Agent != nil {
			st.Agent.Shards = seen.shards
		}
		c.setConditions(&location, row, l, seen, disconnected)
		return location.Status, nil
	})
	if err == nil && wait > 0 {
		return againError(wait)
	}
	return err
}

// setConditions sets the conditions of a Location. Without a session, those that depend on its
// agents do not change.
func (c *locationController) setConditions(location *v1alpha1.Location, row *table.Row, l key.Location, seen sighting, disconnected bool) {
	all, set := &location.Status.Conditions, c.config.Status.condition
	enrolment, _ := c.config.Table.Get(key.Enrolment(l))
	if condition, ok := enrolled(enrolment, row, l, seen.session != nil); ok {
		set(all, row, condition)
	}
	switch {
	case seen.session != nil:
		set(all, row, seen.connected())
	case disconnected:
		set(all, row, seen.disconnected())
	}
	seen.setClusterAvailable(all, c.config.Now(), row.Meta.Generation)
	// An operator may have set the condition Compatible with another reason.
	if now := meta.FindStatusCondition(*all, v1alpha1.ConditionCompatible); now == nil || now.Reason == v1alpha1.ReasonProtocol {
		if condition, ok := seen.compatible(); ok {
			set(all, row, condition)
		}
	}
	switch upsyncs := placement.UpsyncsOf(row); {
	case len(upsyncs) == 0:
		meta.RemoveStatusCondition(all, v1alpha1.ConditionUpsynced)
	case seen.session != nil:
		set(all, row, seen.upsynced(upsyncs, &location.Spec))
	}
}

// hasReportsFrom reports whether a location reports placed objects of a space. Objects with a pending
// removal are reported, too.
func (c *locationController) hasReportsFrom(l key.Location, s key.Space) (found bool) {
	c.config.Table.Snapshot().Ascend(key.OriginReports(l, s, key.Placed), func(*table.Row) bool {
		found = true
		return false
	})
	return found
}

// grace returns how long the location may still be without the missing sessions before it counts as
// disconnected. The time starts when the agents could have connected, and when this process has
// seen their sessions end at any hub. An agent whose session attempts reach this hub also has that
// time.
func (c *locationController) grace(ctx context.Context, missing []key.Session) (time.Duration, error) {
	left := func() time.Duration {
		least, now, answers := c.config.Disconnected, c.config.Now(), c.config.Answers()
		for _, session := range missing {
			since := answers
			_, seen := c.config.Connected(session)
			for _, t := range []time.Time{c.started, seen.Ended, c.config.Gone(session)} {
				if t.After(since) {
					since = t
				}
			}
			least = min(least, c.config.Disconnected-now.Sub(since))
		}
		return least
	}
	if wait := left(); wait > 0 {
		return wait, nil
	}
	// No agent can connect while the log does not answer, which may not be known yet.
	if err := c.config.CheckLog(ctx); err != nil {
		return 0, errLater
	}
	return left(), nil
}

// forget deletes the enrolment, the reports and the agent statuses of a deleted location.
func (c *locationController) forget(ctx context.Context, l key.Location) error {
	snapshot := c.config.Table.Snapshot()
	var ops []etcd.Op
	if snapshot.Get(key.Enrolment(l)) != nil {
		ops = append(ops, etcd.Op{Key: key.Enrolment(l)})
	}
	snapshot.Ascend(key.LocationReports(l), func(row *table.Row) bool {
		ops = append(ops, etcd.Op{Key: row.Key})
		return true
	})
	snapshot.Ascend(key.LocationAgentStatuses(l), func(row *table.Row) bool {
		ops = append(ops, etcd.Op{Key: row.Key})
		return true
	})
	if snapshot.Get(key.Dropped(l)) != nil {
		ops = append(ops, etcd.Op{Key: key.Dropped(l)})
	}
	_, err := c.config.Log.Write(ctx, ops, etcd.Guard{Key: l.Key()})
	if errors.Is(err, etcd.ErrGuard) {
		return nil // created again meanwhile: an agent that joins clears old reports
	}
	return err
}
