package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/judge"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// reasonPruneGuard is why something is not Synced while removals wait.
const reasonPruneGuard = "PruneGuard"

// complete adds what is computed when an object is read; nil if there is nothing.
func (h *Hub) complete(row *table.Row) []byte {
	s, r, name, ok := key.Split(row.Key)
	switch {
	case !ok || s != key.Root:
	case r == key.Locations:
		return h.completeLocation(row, name)
	case r == key.Spaces:
		return h.completeSpace(row, key.Space(name))
	}
	return nil
}

// completeSpace adds to a Space what it holds.
func (h *Hub) completeSpace(row *table.Row, s key.Space) []byte {
	used := h.usage.Of(s)
	value, err := sjson.SetBytes(bytes.Clone(row.Value), "status.objects", used.Objects)
	if err != nil {
		return nil
	}
	if value, err = sjson.SetBytes(value, "status.bytes", used.Bytes); err != nil {
		return nil
	}
	if value, err = h.withFull(value, row.Meta.Generation); err != nil {
		return nil
	}
	return value
}

// completeLocation adds to a Location the counts of what is assigned to it, and
// the condition Synced that follows from them. They are not stored: one change
// of one object would otherwise cost a write for each of its locations.
func (h *Hub) completeLocation(row *table.Row, name string) []byte {
	var l v1alpha1.Location
	if json.Unmarshal(row.Value, &l) != nil { // it is shown as it is
		return nil
	}
	counts := h.tally.Location(key.Location(name))
	if judge.Away(l.Status.Conditions) {
		counts.Stale = counts.Assigned
	}
	value, err := setFields(bytes.Clone(row.Value), counts)
	if err != nil {
		return nil
	}
	l.Status.LeftCounts = h.tally.LeftAt(key.Location(name))
	if value, err = setFields(value, l.Status.LeftCounts); err != nil {
		return nil
	}
	c := syncedCondition(name, &l.Status, counts)
	c.ObservedGeneration = row.Meta.Generation
	c.LastTransitionTime = metav1.NewTime(h.synced.since(key.Location(name), c.Status, h.config.Now()))
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

// counts says how far the object of a row has come at its locations.
func (h *Hub) counts(row *table.Row) v1alpha1.Counts {
	path, _ := key.PathOf(row.Key)
	return h.tally.Object(path)
}

// setFields sets the fields of the counts in a status.
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

// syncedCondition says whether the location has what it is to have, or else the
// first reason why not, and what to do about it.
func syncedCondition(name string, s *v1alpha1.LocationStatus, n v1alpha1.Counts) metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionSynced, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	const no = metav1.ConditionFalse
	a := s.Agent
	if a == nil {
		a = &v1alpha1.AgentStatus{}
	}
	switch {
	case !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionEnrolled):
		return say(metav1.ConditionUnknown, "NotEnrolled", "no agent has joined yet")
	case judge.Away(s.Conditions):
		return say(metav1.ConditionUnknown, "Disconnected", "no agent holds a session; it keeps the cluster as it was told last")
	case a.Lineage == string(wire.Unproven):
		return say(no, "LineageUnproven",
			"this hub's log does not continue the one that the agent knows, so %d changes and removals wait; if it is the right one, "+
				"run: orrery location accept %s", a.Deferred, name)
	case a.Purge != nil:
		return say(no, "Purging", "everything is being removed: %d objects left, %d kept since others use them", a.Purge.Left, a.Purge.Kept)
	case a.Halted != "":
		return say(no, "Halted", "the agent changes nothing: %s", a.Halted)
	case a.Prune != nil:
		return say(no, reasonPruneGuard, "%d removals wait, more than spec.prune allows at once; to let them go, "+
			"run: orrery location confirm-prune %s --digest %s", a.Prune.Pending, name, a.Prune.Digest)
	case n.Failed > 0:
		return say(no, "Failed", "%d of %d objects failed", n.Failed, n.Assigned)
	case n.Held > 0:
		return say(no, "Held", "%d of %d objects are held", n.Held, n.Assigned)
	case n.Applied < n.Assigned:
		return say(no, "Progressing", "%d of %d objects are applied", n.Applied, n.Assigned)
	}
	return say(metav1.ConditionTrue, "Applied", "%s", allApplied(n, s.Leftovers))
}

// allApplied says that everything assigned is applied, and what that does not say.
func allApplied(n v1alpha1.Counts, leftovers int64) string {
	said := "everything assigned is applied"
	if n.Mutated > 0 {
		said += fmt.Sprintf("; admission sets other values in %d of %d", n.Mutated, n.Assigned)
	}
	if leftovers > 0 {
		said += fmt.Sprintf("; %d objects stay that are not assigned any more, since others use them: "+
			"see orrery status --state Orphaned in their spaces", leftovers)
	}
	return said
}

// syncTimes remembers since when each location is synced, or not, as far as this
// process has seen: not from before it began. It is safe for concurrent use.
type syncTimes struct {
	mu  sync.Mutex
	all map[key.Location]syncTime
}

type syncTime struct {
	status metav1.ConditionStatus
	since  time.Time
}

func newSyncTimes() *syncTimes { return &syncTimes{all: map[key.Location]syncTime{}} }

// note is told the status of a location whenever something has changed that it
// follows from.
func (s *syncTimes) note(l key.Location, status metav1.ConditionStatus, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[l].status != status {
		s.all[l] = syncTime{status, now}
	}
}

// since is when the status of the location became this one: now, if it is not the
// one that was noted, since notes are a settling time behind.
func (s *syncTimes) since(l key.Location, status metav1.ConditionStatus, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[l].status != status {
		return now
	}
	return s.all[l].since
}

func (s *syncTimes) forget(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
}

// noteSynced notes whether locations are synced whose counts or rows have changed.
func (h *Hub) noteSynced(changed []key.Location) {
	state := h.table.Snapshot()
	for _, l := range changed {
		row := state.Get(l.Key())
		var location v1alpha1.Location
		if row == nil || json.Unmarshal(row.Value, &location) != nil {
			h.synced.forget(l)
			continue
		}
		h.synced.note(l, syncedCondition(string(l), &location.Status, h.tally.Location(l)).Status, h.config.Now())
	}
}
