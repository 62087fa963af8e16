package agentapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// defaultPruneMaxPercent is the default of spec.prune.maxPercent, for
// locations whose spec leaves prune out.
const defaultPruneMaxPercent = 30

// locations reads Locations for the requests of their agents: whether they exist, their settings, and
// their content. It keeps nothing, so each call is about the current state of the table. It is safe for
// concurrent use.
type locations struct {
	table    *table.Table
	renderer *render.Renderer
	// confirmations returns the removals at a location that were confirmed elsewhere.
	confirmations func(key.Location) []wire.Confirmation
	// heartbeat is the interval of pings on a quiet session.
	heartbeat time.Duration
}

// find returns the row of a location that is not being deleted.
func (ls *locations) find(l key.Location) (*table.Row, error) {
	row, _ := ls.table.Get(l.Key())
	if row == nil || row.Meta.Deleting {
		return nil, notFound(l)
	}
	return row, nil
}

// uid returns the UID of a location that is not being deleted. It fails with NotFound if there is
// none. It is cheaper than settings.
func (ls *locations) uid(l key.Location) (string, error) {
	row, err := ls.find(l)
	if err != nil {
		return "", err
	}
	return row.Meta.UID, nil
}

// settings returns a location's UID and its settings for the agent. It fails with
// NotFound if the location is gone or being deleted.
func (ls *locations) settings(l key.Location) (uid string, s wire.Settings, err error) {
	row, err := ls.find(l)
	if err != nil {
		return "", s, err
	}
	var location v1alpha1.Location
	if err := json.Unmarshal(row.Value, &location); err != nil {
		return "", s, fmt.Errorf("decode location %q: %w", l, err)
	}
	s = wire.Settings{
		PruneMaxPercent: defaultPruneMaxPercent, HeartbeatSeconds: max(1, int(ls.heartbeat.Seconds())),
		Accept: location.Annotations[v1alpha1.AcceptAnnotation], Purge: isPurged(row),
		Confirm: ls.confirmations(l),
	}
	if p := location.Spec.Prune.MaxPercent; p != nil {
		s.PruneMaxPercent = int(*p)
	}
	if d := location.Annotations[v1alpha1.ConfirmPruneAnnotation]; d != "" {
		var confirmed []wire.Confirmation
		for _, digest := range presence.DigestsOf(d) {
			confirmed = append(confirmed, wire.Confirmation{Digest: digest})
		}
		s.Confirm = append(confirmed, s.Confirm...)
	}
	if !s.Purge {
		s.Upsync, _ = placement.UpsyncsOf(row).Entries()
	}
	if s.Upsync != nil {
		most := upsync.Limits(&location.Spec)
		s.UpsyncObjects, s.UpsyncBytes = int(most.Objects), most.Bytes
	}
	s.Dropped = ls.dropped(l)
	s.Halt, s.TakesOver, s.Namespaces = haltOf(&location), GrantedTakeovers(ls.table, l), string(placement.PlacingOf(row))
	return row.Meta.UID, s, nil
}

// exists fails with NotFound if a location with a UID was removed, even if there is another one of its
// name.
func (ls *locations) exists(l key.Location, uid string) error {
	now, err := ls.uid(l)
	if err == nil && now != uid {
		err = notFound(l)
	}
	return err
}

// notFound returns the error that a location does not exist.
func notFound(l key.Location) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}, string(l))
}

// dropped returns the latest revision at which reports of a location were removed; 0 if there is none,
// or if more removals follow.
func (ls *locations) dropped(l key.Location) int64 {
	row, _ := ls.table.Get(key.Dropped(l))
	if row == nil || Dropping(row) {
		return 0
	}
	return row.ModRev
}

// connected returns the condition Connected of a location, or nil.
func (ls *locations) connected(l key.Location) *metav1.Condition {
	var location v1alpha1.Location
	row, err := ls.find(l)
	if err != nil || json.Unmarshal(row.Value, &location) != nil {
		return nil
	}
	return meta.FindStatusCondition(location.Status.Conditions, v1alpha1.ConditionConnected)
}

// sessionFor returns the session of the agent for a space at a location.
func (ls *locations) sessionFor(l key.Location, space key.Space) key.Session {
	row, _ := ls.table.Get(l.Key())
	n := presence.ShardsOf(row)
	return key.Session{Location: l, Shard: key.NewShard(key.ShardOf(space, n), n)}
}

// content returns the content of a location's shard with its current settings, for an agent
// with some abilities.
func (ls *locations) content(l key.Location, shard key.Shard, can abilities) content {
	c := content{location: l, shard: shard, renderer: ls.renderer, can: can}
	if _, settings, err := ls.settings(l); err == nil {
		c.set(settings)
	}
	return c
}

// isPurged reports whether the operator purges a location.
func isPurged(location *table.Row) bool {
	return location.Annotation(v1alpha1.PurgeAnnotation) == "true"
}

// haltOf returns the reason why the agent of a location must not change anything, or "".
func haltOf(l *v1alpha1.Location) string {
	if l.Spec.Mapping == v1alpha1.MappingPaused {
		return "the location's mapping is Paused"
	}
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionCompatible); c != nil && c.Status == metav1.ConditionFalse {
		return "the location is not compatible: " + cmp.Or(c.Message, c.Reason)
	}
	return ""
}
