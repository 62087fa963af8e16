package reconcile

// What can't be changed in place is deleted and made anew in two cases: the policy is
// Recreate, or the object at the target was made for another source object of the name,
// which was deleted in the space and made again under its name while the agent was away, so that
// its deletion here is what the user asked for.
//
// What is deleted for the policy is proven to be deleted for an immutable field alone: the
// API server's own validation refused a change of fields that are known to be immutable, would
// accept the change of everything else, and would accept the new object. A policy at
// the target that forbids the change forbids it in either way. Each such deletion counts as a
// removal that follows from policy. What holds stored data is deleted only if that is allowed
// at the object itself.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/immutable"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxRefusals bounds how often a dry run names further immutable fields.
const maxRefusals = 4

// recreator deletes objects that can't be changed in place, so that they are made anew.
type recreator struct {
	target   *kubeclient.Client
	remover  *remover
	writer   *writer
	refusals refusals
	log      *slog.Logger
}

// refused is the outcome of an apply that was refused since it would change an immutable field.
func (r *recreator) refused(ctx context.Context, t *turn, d decide.Decision, refusal error) outcome {
	o := outcome{record: t.record, failed: true, Decision: decide.Decision{
		State: wire.Failed, Reason: v1alpha1.ReasonImmutable, Message: wire.Brief(kubeclient.StatusOf(refusal).Message),
		Retry: retry.Backoff(t.view.Failures, refusedRetry, maxRetry),
	}}
	live, err := r.target.GetAll(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) || err == nil && live.Metadata.UID != d.UID {
		return outcome{record: t.record, keep: true, failed: true, Decision: decide.Decision{Retry: o.Retry}}
	}
	if err != nil {
		return r.refusals.outcome(t, err)
	}
	former := predecessorOf(t, &live.Metadata)
	if !t.want().Object().Policy.Recreate && (former == nil || former.orphan) {
		return o
	}
	kept, err := r.obstacle(ctx, t, d, live, former)
	if kept == "" && err == nil && !former.deleted() {
		kept, err = r.other(ctx, t, d, live, refusal)
	}
	if err != nil {
		return r.refusals.outcome(t, err)
	}
	if kept != "" {
		o.Message = wire.Brief(kept + ": " + o.Message)
		return o
	}
	return r.remove(ctx, t, live, former, o.Message)
}

// obstacle returns why an object stays of which an immutable field is to change; empty: it can be
// made anew.
func (r *recreator) obstacle(ctx context.Context, t *turn, d decide.Decision, live *ownership.Answer, former *predecessor) (string, error) {
	_, ours := live.Metadata.ProvesOurs(t.view.As, t.kind())
	switch {
	case d.Adopt || !ours && t.record == nil:
		return "it is not recreated, since Orrery did not make it", nil
	case d.Drift && t.record != nil && t.record.Mutated != nil:
		return "it is not recreated for what its admission changes", nil
	case holdsData(t.id.Resource, live.JSON) && !live.Metadata.Allows(v1alpha1.RecreateAnnotation):
		return "it is not recreated, since that deletes stored data, unless it has the annotation " + v1alpha1.RecreateAnnotation + ": \"true\" at the location", nil
	}
	use, err := r.remover.users.find(ctx, t)
	if err != nil {
		return "", err
	}
	if use.ours || use.foreign != "" {
		return "it is not recreated while there is something in it", nil
	}
	switch err := r.wouldCreate(ctx, t, former); {
	case errors.Is(err, errOutdated):
		return "", err
	case err != nil:
		return fmt.Sprintf("it is not recreated, since it could not be made: %v", err), nil
	}
	return "", nil
}

// holdsData reports whether the deletion of an object deletes stored data.
func holdsData(r key.Resource, live string) bool {
	switch r {
	case key.NewResource("", "persistentvolumeclaims"), key.NewResource("", "persistentvolumes"):
		return true
	case key.NewResource("apps", "statefulsets"):
		return gjson.Get(live, "spec.persistentVolumeClaimRetentionPolicy.whenDeleted").Str == "Delete" &&
			len(gjson.Get(live, "spec.volumeClaimTemplates").Array()) > 0
	default:
		return false
	}
}

// other returns what else than immutable fields the target refuses to change; empty: nothing. A dry
// run changes everything but those.
func (r *recreator) other(ctx context.Context, t *turn, d decide.Decision, live *ownership.Answer, refused error) (string, error) {
	definition, err := r.definition(ctx, t)
	if err != nil {
		return "", err
	}
	body, err := r.writer.body(t, d.UID)
	if err != nil {
		return "", err
	}
	for range maxRefusals {
		fields, other := immutable.Known(kubeclient.StatusOf(refused), t.id.Resource, t.view.Place.Version, definition)
		if other != "" {
			return "it is not recreated for what is not known to be immutable: " + other, nil
		}
		if body, err = immutable.Restored(body, live.JSON, fields); err != nil {
			return "", err
		}
		_, refused = r.target.TryApply(ctx, t.view.Place, t.id, t.view.As.Manager(), body)
		switch {
		case refused == nil:
			return "", nil
		case kubeclient.PreconditionFailed(refused), kubeclient.MissingObject(refused, t.id):
			return "", refused
		case kubeclient.StatusOf(refused) == nil || kubeclient.Unavailable(refused):
			return "", refused
		case !immutable.Refused(kubeclient.StatusOf(refused)):
			return "it is not recreated, since more than an immutable field keeps it from being changed: " + kubeclient.StatusOf(refused).Message, nil
		}
	}
	return "it is not recreated, since too many of its fields are immutable", nil
}

// definition is the CustomResourceDefinition of the turn's object, as JSON; empty: it is of a
// built-in kind, or the agent can't read it.
func (r *recreator) definition(ctx context.Context, t *turn) (string, error) {
	if t.id.Builtin() {
		return "", nil
	}
	crd := key.Identity{Resource: key.CRDs, Name: t.id.Resource.Resource + "." + t.id.APIGroup()}
	answer, err := r.target.GetAll(ctx, kubeclient.CRDs, crd)
	switch {
	case kubeclient.MissingObject(err, crd), apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return answer.JSON, nil
}

// remove deletes the live object, so that it is made anew when it is gone. Unless a user has
// deleted it in its space, that is counted first.
func (r *recreator) remove(ctx context.Context, t *turn, live *ownership.Answer, former *predecessor, why string) outcome {
	if !former.deleted() && !t.record.Recreates(*t.want().Object()) {
		o := outcome{record: t.record, recreates: true, keep: true, Decision: decide.Decision{Retry: 1}}
		if o.record == nil {
			o.record, o.waits = markedRecord(t, &live.Metadata), waitedToRecreate(t)
		}
		return o
	}
	how := metav1.DeletePropagationBackground // it is to be short
	if former != nil {
		var err error
		if how, err = r.remover.propagation(ctx, t); err != nil {
			return r.refusals.outcome(t, err)
		}
	}
	gone, err := r.target.Remove(ctx, t.view.Place, t.id, live.Metadata.UID, how)
	switch {
	case kubeclient.MissingObject(err, t.id):
		gone = true
	case err != nil:
		return r.refusals.outcome(t, err)
	}
	r.log.Info("deleted an object to make it anew", "object", t.object().Path(), "reason", why)
	o := outcome{record: t.record, Decision: decide.Decision{
		State: wire.Waiting, Reason: v1alpha1.ReasonRecreating, Message: wire.Brief(why), Retry: decide.TerminatingRetry,
	}}
	if gone {
		o.Retry = 1
		o.seen = &decide.Observed{Existence: decide.Absent, Revision: t.view.Seen.Revision}
	}
	return o
}

// markedRecord is the record of an object that is ours by its marks, as they have it.
func markedRecord(t *turn, m *ownership.Meta) *store.Record {
	source, _ := m.ProvesOurs(t.view.As, t.kind())
	return &store.Record{
		Space: source.Space, Moved: source.Moved, UID: m.UID, As: t.view.As,
		Source: store.Source{
			UID:    m.Annotations[v1alpha1.SourceUIDAnnotation],
			Policy: wire.Policy{Orphan: m.Orphan(), ServiceAccount: m.Account()}, Log: m.Log(),
		},
		Version: t.view.Place.Version, Kind: t.view.Kind,
	}
}

// waitedToRecreate reports whether by the last report the deletion waits for a confirmation.
func waitedToRecreate(t *turn) bool {
	report := t.before[t.object().Space]
	return report != nil && report.State == wire.Waiting && report.Reason == v1alpha1.ReasonPruneGuard
}

// wouldCreate returns why the target would refuse to create the object if its name were
// free; nil: it would not. A dry run shows it, since an API server validates an object
// before it finds that the name is taken. An address or port that is taken is no reason if a
// user has deleted the object that is there, which probably has it.
func (r *recreator) wouldCreate(ctx context.Context, t *turn, former *predecessor) error {
	body, err := r.writer.body(t, "")
	if err != nil {
		return err
	}
	if body, err = sjson.DeleteBytes(body, "metadata.resourceVersion"); err != nil {
		return fmt.Errorf("make body of a creation: %w", err)
	}
	err = r.target.TryCreate(ctx, t.view.Place, t.id, t.view.As.Manager(), body)
	if apierrors.IsAlreadyExists(err) || former.deleted() && immutable.OnlyAllocated(kubeclient.StatusOf(err)) {
		return nil
	}
	return err
}

// supersede deletes what is at the target, before anything is applied, if it is of an earlier
// source object, and an apply would not make it the desired object. If done is true, the outcome
// is that of the turn.
func (r *recreator) supersede(ctx context.Context, t *turn, d decide.Decision) (o outcome, done bool, err error) {
	once := decide.RunsOnce(t.id.Resource)
	if d.UID == "" || d.Adopt || !once && t.id.Resource != key.NewResource("", "services") || t.record != nil && !follows(t, t.record) {
		return outcome{}, false, nil
	}
	live, err := r.target.GetAll(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) || err == nil && live.Metadata.UID != d.UID {
		return outcome{}, false, errLook
	}
	if err != nil {
		return outcome{}, false, err
	}
	former := predecessorOf(t, &live.Metadata)
	if former == nil {
		return outcome{}, false, nil
	}
	why := "what ran for the object before it runs again"
	if !once {
		object, err := r.writer.rendering(t)
		if err != nil || !keepsHeadless(live.JSON, object) {
			return outcome{}, false, err
		}
		why = "a headless Service can't become an ordinary one"
	}
	if former.orphan {
		return outcome{record: t.record, Decision: decide.Left()}, true, nil
	}
	if err := r.wouldCreate(ctx, t, former); err != nil {
		return outcome{}, true, err
	}
	return r.remove(ctx, t, live, former, why), true, nil
}

// keepsHeadless reports whether an API server would leave a live Service headless that is not
// desired to be: without an address in what is applied it keeps the one that it has.
func keepsHeadless(live string, desired []byte) bool {
	return gjson.Get(live, "spec.clusterIP").Str == "None" && gjson.GetBytes(desired, "spec.type").Str != "ExternalName" &&
		gjson.GetBytes(desired, "spec.clusterIP").Str == ""
}

// predecessor is the source object that the object at the target was made for, if the desired
// object is another one.
type predecessor struct {
	// same is set if it had the same space, so that it ceased to be by a user's deletion.
	same bool
	// orphan is set if it was to stay when it was no longer assigned.
	orphan bool
}

// deleted reports whether a user has deleted the object in its space, so that its deletion at
// the target is neither counted nor in need of more proof. The predecessor may be nil.
func (p *predecessor) deleted() bool { return p != nil && p.same && !p.orphan }

// predecessorOf is that of the object with the metadata; nil: it was made for the desired object,
// or nothing proves for which.
func predecessorOf(t *turn, m *ownership.Meta) *predecessor {
	if rec := t.record; rec != nil {
		if rec.UID != m.UID || !follows(t, rec) {
			return nil
		}
		return &predecessor{same: rec.Space == t.object().Space, orphan: rec.Source.Policy.Orphan}
	}
	source, ours := m.ProvesOurs(t.view.As, t.kind())
	uid := m.Annotations[v1alpha1.SourceUIDAnnotation]
	if !ours || source.Space == t.object().Space && uid == t.want().Object().UID {
		return nil
	}
	return &predecessor{same: source.Space == t.object().Space, orphan: m.Orphan()}
}

// follows reports whether the desired object is another source object than the one on record.
func follows(t *turn, rec *store.Record) bool {
	return rec.Source.UID != "" && (rec.Space != t.object().Space || rec.Source.UID != t.want().Object().UID)
}
