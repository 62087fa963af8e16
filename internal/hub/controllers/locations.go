package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// locations updates the status of Locations, and deletes the data of deleted ones.
func (c *Controllers) locations() *controller {
	prefixes := []string{key.ResourcePrefix(key.Root, key.Locations), key.Enrolments.Prefix(), key.Sessions.Prefix(), key.AgentStatuses.Prefix()}
	return c.controller("locations", c.reconcileLocation, c.follow(source{prefixTopics(prefixes...), below(prefixes...), byLocation}))
}

// byLocation enqueues the location of a change.
func byLocation(ch table.Change) []string {
	if l, ok := key.LocationOf(ch.Row().Key); ok {
		return []string{string(l)}
	}
	return nil
}

func (c *Controllers) reconcileLocation(ctx context.Context, name string) error {
	l := key.Location(name)
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(l.Key())
	if row == nil {
		return c.forgetLocation(ctx, l)
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
	err := c.updateStatus(ctx, row, func(object []byte) (any, error) {
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
		c.enrolled(&st.Conditions, row, l, seen.session != nil)
		switch {
		case seen.session != nil:
			c.condition(&st.Conditions, row, seen.connected())
		case disconnected:
			c.condition(&st.Conditions, row, seen.disconnected())
		}
		seen.setClusterAvailable(&st.Conditions, c.config.Now(), row.Meta.Generation)
		c.compatible(&st.Conditions, row, seen)
		c.upsynced(&st.Conditions, row, &location.Spec, seen)
		return location.Status, nil
	})
	if err == nil && wait > 0 {
		return againError(wait)
	}
	return err
}

// enrolled sets the condition Enrolled by the record of the location's enrolment. An agent that had
// a session has joined, also with credentials of earlier versions.
func (c *Controllers) enrolled(all *[]metav1.Condition, row *table.Row, l key.Location, opened bool) {
	var value []byte
	if kept, _ := c.config.Table.Get(key.Enrolment(l)); kept != nil {
		value = kept.Value
	}
	record := enroll.ParseRecord(value, row.Meta.UID)
	condition := metav1.Condition{
		Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonJoined, Message: "an agent has joined",
	}
	switch flag, why := revoked(record, presence.ShardsOf(row)); {
	case why != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonRevoked
		if why.Reused {
			condition.Reason = v1alpha1.ReasonCredentialReused
		}
		condition.Message = clip(why.Message) + "; to go on, run: orrery location token " + string(l) + flag
		if why.Shown != nil {
			condition.Message += "; if a snapshot of the agent's machine or volume was restored, run instead: orrery location readmit " + string(l) + flag
		}
	case !record.Enrolled() && !opened:
		return
	}
	c.condition(all, row, condition)
}

// grace returns how long the location may still be without the missing sessions before it counts as
// disconnected. The time starts when the agents could have connected, and when this process has
// seen their sessions end at any hub. An agent whose session attempts reach this hub also has that
// time.
func (c *Controllers) grace(ctx context.Context, missing []key.Session) (time.Duration, error) {
	left := func() time.Duration {
		least, now, answers := c.config.Disconnected, c.config.Now(), c.config.Answers()
		for _, session := range missing {
			since := answers
			_, seen := c.config.Sessions.Connected(session)
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

// forgetLocation deletes the enrolment, the reports and the agent statuses of a deleted location.
func (c *Controllers) forgetLocation(ctx context.Context, l key.Location) error {
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
