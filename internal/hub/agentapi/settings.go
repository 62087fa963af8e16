package agentapi

import (
	"cmp"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// defaultPruneMaxPercent is the default of spec.prune.maxPercent, for
// locations whose spec leaves prune out.
const defaultPruneMaxPercent = 30

// find returns the row of a location that is not being deleted.
func (a *Server) find(l key.Location) (*table.Row, error) {
	row, _ := a.config.Table.Get(l.Key())
	if row == nil || row.Meta.Deleting {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}, string(l))
	}
	return row, nil
}

// UID returns the UID of a location that is not being deleted. It fails with NotFound if there is
// none. It is cheaper than Settings.
func (a *Server) UID(l key.Location) (string, error) {
	row, err := a.find(l)
	if err != nil {
		return "", err
	}
	return row.Meta.UID, nil
}

// Settings returns a location's UID and its settings for the agent. It fails with
// NotFound if the location is gone or being deleted.
func (a *Server) Settings(l key.Location) (uid string, s wire.Settings, err error) {
	row, err := a.find(l)
	if err != nil {
		return "", s, err
	}
	var location v1alpha1.Location
	if err := json.Unmarshal(row.Value, &location); err != nil {
		return "", s, fmt.Errorf("decode location %q: %w", l, err)
	}
	s = wire.Settings{
		PruneMaxPercent: defaultPruneMaxPercent, HeartbeatSeconds: max(1, int(a.config.Heartbeat.Seconds())),
		Accept: location.Annotations[v1alpha1.AcceptAnnotation], Purge: isPurged(row),
		Confirm: a.config.Confirmations(l),
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
	s.Dropped = a.dropped(l)
	s.Halt, s.TakesOver, s.Namespaces = haltOf(&location), GrantedTakeovers(a.config.Table, l), string(placement.PlacingOf(row))
	return row.Meta.UID, s, nil
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
