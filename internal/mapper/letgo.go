package mapper

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

const (
	reasonLetGo = v1alpha1.ReasonReleased
	// letGoFor is how long the report of an object that was let go stays.
	letGoFor = 5 * time.Second
)

// markNames are all marks, by the map they are in.
var markNames = map[string][]string{
	"labels": {locationLabel, v1alpha1.SpaceLabel},
	"annotations": {
		v1alpha1.SourceKindAnnotation, v1alpha1.SourceNamespaceAnnotation, v1alpha1.SourceNameAnnotation,
		v1alpha1.SourceUIDAnnotation, v1alpha1.OnRemoveAnnotation, v1alpha1.LogAnnotation, impliedMark,
	},
}

// letGo takes our marks and our managed fields from an object and leaves it to
// itself. What has its name and our marks, but another UID, is let go, too.
func (r *reconciler) letGo(ctx context.Context, t *turn, d decision) (outcome, error) {
	m, err := r.target.get(ctx, t.view.at, t.id)
	if err == nil && m.UID != d.uid {
		if _, ours := m.provesOurs(t.view.as, t.view.kind); !ours {
			return outcome{forget: true, seen: r.gone(t)}, nil
		}
	}
	if err == nil {
		m, err = r.target.letGo(ctx, t.view.at, t.id, t.view.as, m)
	}
	switch {
	case missingObject(err, t.id), missingNamespace(err, t.id):
		return outcome{forget: true, seen: r.gone(t)}, nil
	case missingKind(err):
		return r.verifyKind(ctx, t)
	case err != nil:
		return outcome{}, err
	}
	r.log.Info("left an object to itself", "object", t.object().Path())
	return outcome{
		letGo: true, record: t.record, seen: &observed{presence: absent, revision: m.revision()},
		decision: decision{
			state: wire.Orphaned, reason: reasonLetGo, retry: letGoFor,
			message: "it stays at the location, which Orrery no longer manages there",
		},
	}, nil
}

// lingers is how long the report of what was let go is yet to stay, so that it
// is seen.
func (t *turn) lingers(now time.Time) time.Duration {
	r := t.before[t.object().Space]
	if r == nil || r.State != wire.Orphaned || r.Reason != reasonLetGo {
		return 0
	}
	since, err := time.Parse(time.RFC3339, r.Since)
	if err != nil { // it was put together by somebody else
		return 0
	}
	return min(letGoFor-now.Sub(since), letGoFor)
}

// letGo removes the location's marks and managed fields from the object that
// m was read from, if that is still as it was, and changes nothing else.
func (t *target) letGo(ctx context.Context, p place, id key.Identity, l identity, m objectMeta) (objectMeta, error) {
	meta := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion, "managedFields": orNone(othersFields(m.ManagedFields, l))}
	for field, names := range markNames {
		gone := map[string]any{}
		for _, name := range names {
			gone[name] = nil
		}
		meta[field] = gone
	}
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return objectMeta{}, fmt.Errorf("encode what lets go: %w", err)
	}
	return t.merge(ctx, "let go", p, id, l, body)
}

// othersFields are the managed fields without what the location has applied, also as it
// was before it was made again.
func othersFields(all []managedFields, l identity) []managedFields {
	var others []managedFields
	for _, f := range all {
		if f.Manager != l.manager() && !l.former(f.Manager) && !f.appliedBy(releasedManager) {
			others = append(others, f)
		}
	}
	return others
}

// orNone are managed fields as an API server takes them: one empty entry for
// none, and no entry for those that it has.
func orNone(all []managedFields) []managedFields {
	if len(all) == 0 {
		return []managedFields{{}}
	}
	return all
}

// anotherLocation says whether a label is that of a location of another name: one
// of the same name and another UID is what this location was before.
func anotherLocation(label string, l identity) bool {
	name, _, _ := strings.Cut(string(l), ".")
	was, _, _ := strings.Cut(label, ".")
	return label != "" && was != name
}

// remember keeps in what is recorded of an object the policy that was the last
// before it ceased to be desired.
func (t *tx) remember(id string, rec *record, was *want) error {
	o := was.object()
	if o == nil {
		return nil
	}
	policy := o.Policy
	policy.Release = rec.Source.Policy.Release // what was released, not what would have been
	if policy == rec.Source.Policy {
		return nil
	}
	rec.Source.Policy = policy
	return t.setRecord(id, rec)
}
