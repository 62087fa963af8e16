package reconcile

// An object may have been deleted in its space and made again under its name while the agent
// was away, or faster than it worked. The new one has another UID. An object that can be changed in
// place is changed, any other is replaced, and one that runs once runs again. That the old one is deleted
// here is what the user asked for, so it is not counted as a removal that follows from
// policy, unless another space has the name now.

import (
	"context"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// supersede deletes what is at the target, before anything is applied, if it is of an earlier
// source object and would not become what is desired by an apply. If done is true, the outcome is
// that of the turn.
func (r *recreator) supersede(ctx context.Context, t *turn, d decide.Decision) (o outcome, done bool, err error) {
	once := decide.RunsOnce(t.id.Resource)
	if d.UID == "" || d.Adopt || !once && t.id.Resource != key.NewResource("", "services") || t.record != nil && !follows(t, t.record) {
		return outcome{}, false, nil
	}
	live, err := r.target.GetAll(ctx, t.view.At, t.id)
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
