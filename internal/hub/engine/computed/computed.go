// Package computed adds computed status to objects of Orrery's kinds when they are read: the usage
// of a space, the counts of the objects assigned to a location, and the conditions that follow from
// them and from others. This status is not stored, since each change of an object would cost a write
// for each of its locations.
//
// It must never write.
package computed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/ready"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Config contains the dependencies of Statuses.
type Config struct {
	// Table contains the Locations, Progress the counts of their objects, and Usage the usage of
	// spaces.
	Table    *table.Table
	Progress *progress.Tracker
	Usage    *quota.Usage
	// Capacity returns the usage of the log.
	Capacity interface{ Usage() etcd.Usage }
	// Now is the clock.
	Now func() time.Time
}

// Statuses adds computed status to objects of Orrery's kinds. It is safe for concurrent use.
type Statuses struct {
	config Config
	synced *syncTimes
}

// New returns a Statuses.
func New(config Config) *Statuses { return &Statuses{config: config, synced: newSyncTimes()} }

// Complete returns the value of a row with what is computed on reads; nil if nothing is
// added.
func (s *Statuses) Complete(row *table.Row) []byte {
	in, r, name, ok := key.Split(row.Key)
	if !ok {
		return nil
	}
	value, ok := ready.Complete(r, name, row.Meta, row.Value)
	if !ok || in != key.Root {
		return value
	}
	switch r {
	case key.Locations:
		return s.completeLocation(row, value, key.Location(name))
	case key.Spaces:
		return s.completeSpace(row, value, key.Space(name))
	}
	return value
}

// completeSpace adds its usage to a Space, whose value is that of the row or a copy.
func (s *Statuses) completeSpace(row *table.Row, value []byte, name key.Space) []byte {
	used := s.config.Usage.InSpace(name)
	value, err := sjson.SetBytes(bytes.Clone(value), "status.objects", used.Objects)
	if err != nil {
		return nil
	}
	if value, err = sjson.SetBytes(value, "status.bytes", used.Bytes); err != nil {
		return nil
	}
	if value, err = s.withFull(value, row.Meta.Generation); err != nil {
		return nil
	}
	return value
}

// completeLocation adds the counts of assigned objects to a Location, and the condition Synced. value
// is that of the row or a copy.
func (s *Statuses) completeLocation(row *table.Row, value []byte, name key.Location) []byte {
	var l v1alpha1.Location
	if json.Unmarshal(value, &l) != nil { // shown as stored
		return nil
	}
	counts := s.config.Progress.Location(name)
	if objectstate.IsStale(l.Status.Conditions) {
		counts.Stale = counts.Assigned
	}
	value, err := setFields(bytes.Clone(value), counts)
	if err != nil {
		return nil
	}
	l.Status.LeftCounts = s.config.Progress.UnassignedAt(name)
	if value, err = setFields(value, l.Status.LeftCounts); err != nil {
		return nil
	}
	c := objectstate.SyncedLocation(name, &l.Status, counts)
	c.ObservedGeneration = row.Meta.Generation
	since, known := s.Since(name, c.Status)
	if !known { // the recorded status is up to a settling time old
		since = s.config.Now()
	}
	c.LastTransitionTime = metav1.NewTime(since)
	conditions := l.Status.Conditions
	meta.RemoveStatusCondition(&conditions, c.Type)
	encoded, err := json.Marshal(append(conditions, c))
	if err != nil {
		return nil
	}
	if value, err = sjson.SetRawBytes(value, "status.conditions", encoded); err != nil {
		return nil
	}
	return value
}

// Counts returns the progress of a row's object at its locations, as far as it is known when the context ends. If
// nothing is known then, it returns the error of the context.
func (s *Statuses) Counts(ctx context.Context, row *table.Row) (v1alpha1.Counts, error) {
	path, _ := key.PathOf(row.Key)
	return s.config.Progress.Object(ctx, path)
}

// setFields sets the JSON fields of counts in an object's status.
func setFields(value []byte, counts any) ([]byte, error) {
	encoded, err := json.Marshal(counts)
	if err != nil {
		return nil, err
	}
	gjson.ParseBytes(encoded).ForEach(func(field, n gjson.Result) bool {
		value, err = sjson.SetRawBytes(value, "status."+field.String(), []byte(n.Raw))
		return err == nil
	})
	return value, err
}

// Since returns when the condition Synced of a location got a status; false if that is not the
// recorded status.
func (s *Statuses) Since(l key.Location, status metav1.ConditionStatus) (time.Time, bool) {
	s.synced.mu.Lock()
	defer s.synced.mu.Unlock()
	noted := s.synced.all[l]
	return noted.since, noted.status == status
}

// syncTimes records since when each location is synced, or not, as observed by this process. It is
// safe for concurrent use.
type syncTimes struct {
	mu  sync.Mutex
	all map[key.Location]syncTime
}

type syncTime struct {
	status metav1.ConditionStatus
	since  time.Time
}

func newSyncTimes() *syncTimes { return &syncTimes{all: map[key.Location]syncTime{}} }

// set records the status of a location's condition Synced.
func (s *syncTimes) set(l key.Location, status metav1.ConditionStatus, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[l].status != status {
		s.all[l] = syncTime{status, now}
	}
}

func (s *syncTimes) forget(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
}

// Update records the condition Synced of locations whose counts or rows have changed.
func (s *Statuses) Update(changed []key.Location) {
	state := s.config.Table.Snapshot()
	for _, l := range changed {
		row := state.Get(l.Key())
		var location v1alpha1.Location
		if row == nil || json.Unmarshal(row.Value, &location) != nil {
			s.synced.forget(l)
			continue
		}
		s.synced.set(l, objectstate.SyncedLocation(l, &location.Status, s.config.Progress.Location(l)).Status, s.config.Now())
	}
}

// withFull sets the condition Ready of a Space to False while the log has no room.
func (s *Statuses) withFull(space []byte, generation int64) ([]byte, error) {
	u := s.config.Capacity.Usage()
	if !u.Full {
		return space, nil
	}
	var conditions []metav1.Condition
	if stored := gjson.GetBytes(space, "status.conditions"); stored.Exists() {
		if err := json.Unmarshal([]byte(stored.Raw), &conditions); err != nil {
			return nil, fmt.Errorf("decode the conditions: %w", err)
		}
	}
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLogFull, ObservedGeneration: generation,
		Message: "the hub's log is out of space: " + u.Why, LastTransitionTime: metav1.NewTime(u.Since),
	})
	return sjson.SetBytes(space, "status.conditions", conditions)
}
