package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/fields"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// Values that a policy releases are written once, when the object is created, and then
// left to other writers at the location. Consequences:
//
// Everything that the agent has applied of an object is owned by one of two
// entries of its managed fields: that of the location's manager, which enforces,
// or that of ownership.ReleasedManager, which never applies. The policy's paths decide which.
// Before each apply to an object that is there, the live object is read, and what
// is in the wrong entry is moved (fields.Lease.Entries), by a patch that changes no value
// and holds for that very revision; the apply then leaves the released values out.
// So it neither removes nor changes them, whichever client wrote them last. What a rule no
// longer releases is moved back in the same way, and the apply sets it like anything else. If the object
// in its space has it no more, no manager owns it from then on, and it stays as it is.
// The managed fields are the only memory of this, so it survives a
// kill of the agent and the loss of its store.
//
// What is created is created in full, by one request, under the location's manager;
// its released values are handed over right after. That holds for an object, and for a
// new element of an associative list: it might be invalid without them, and no client has
// written them.
//
// Drift is a change of what the location's manager owns, so a released value, which
// it does not own, is never drift.
//
// Only what the API server keeps as a value of its own can be released: not the
// inside of an atomic map or list, a key of a list, or an element of a set, since
// an apply without it would remove it. The managed fields show of which maps and lists
// the parts have owners of their own; where they do not, a dry run of the whole object
// does. (They do not show which elements exist, since a value may have no owner; that is
// read from the object itself.) An object with a value that cannot be released is not
// changed.

// releases reports whether a value of the object is released, or was.
func (t *turn) releases(f decide.Facts) bool {
	return t.want().Object().Policy.Release != "" || t.record != nil && t.record.Source.Policy.Release != "" || f.Seen.Released
}

// withoutReleased hands over the released values of the object that has the UID, or
// takes them back, and returns what to apply to it. fresh is true if rest has new released
// values, which are handed over after the apply.
func (w *writer) withoutReleased(ctx context.Context, t *turn, object []byte, uid string) (rest []byte, fresh bool, err error) {
	m, err := w.getSame(ctx, t, uid)
	if err != nil {
		return nil, false, err
	}
	x, _, err := w.handOver(ctx, t, object, m)
	if err != nil {
		return nil, false, err
	}
	rest, err = x.Rest(object)
	return rest, x.Fresh, err
}

// afterMaking hands over the released values of what an apply has created. If they can't
// be released, the object is recorded as one that releases nothing.
func (r *Reconciler) afterMaking(ctx context.Context, t *turn, d decide.Decision, object []byte, answer *ownership.Answer) (outcome, error) {
	x, after, err := r.writer.handOver(ctx, t, object, answer.Metadata)
	if errors.Is(err, fields.ErrCannotRelease) {
		refused, o := r.refusals.outcome(t, err), r.done(t, d, answer.Metadata)
		o.Decision, o.failed, o.record.Source.Policy.Release = refused.Decision, true, ""
		return o, nil
	}
	if err != nil {
		return outcome{}, err
	}
	rest, err := x.Rest(object) // released values are not compared
	if err != nil {
		return outcome{}, err
	}
	return r.compared(t, r.done(t, d, after), rest, answer), nil
}

// handOver moves fields of the object that m was read from between the location's
// manager and that of released values, as the policy says, and returns the object's
// metadata after that. It makes no request if they are where they belong.
func (w *writer) handOver(ctx context.Context, t *turn, object []byte, m ownership.Meta) (*fields.Lease, ownership.Meta, error) {
	for range maxSteps {
		x, err := w.lease(ctx, t, object, &m)
		if err != nil {
			return nil, m, err
		}
		entries, changed, err := x.Entries(m.ManagedFields)
		if err != nil || !changed {
			return x, m, err
		}
		after, err := w.patch(ctx, t, "hand over", ownership.SetFields(&m, entries))
		if err == nil {
			return x, after, nil
		}
		if !apierrors.IsConflict(err) && !kubeclient.MissingObject(err, t.id) {
			return nil, m, err
		}
		// Another client has written meanwhile, as controllers do to new objects.
		if m, err = w.getSame(ctx, t, m.UID); err != nil {
			return nil, m, err
		}
	}
	return nil, m, errLook
}

// lease finds which values of the object that m was read from are released. Mostly it
// needs no request for that.
func (w *writer) lease(ctx context.Context, t *turn, object []byte, m *ownership.Meta) (*fields.Lease, error) {
	return fields.NewLease(ctx, t.want().Object().Policy.Release, object, m, t.view.As, &lookup{writer: w, turn: t, uid: m.UID})
}

// lookup asks the target about the object of a turn, provided it has the UID, on behalf
// of one lease.
type lookup struct {
	*writer
	*turn
	uid string
}

// Object implements fields.Asker.
func (l *lookup) Object(ctx context.Context) (map[string]any, error) {
	there, err := l.target.GetAll(ctx, l.turn.view.Place, l.id)
	if kubeclient.MissingObject(err, l.id) || err == nil && there.Metadata.UID != l.uid {
		return nil, errLook
	}
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(there.JSON), &object); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	return object, nil
}

// getSame reads the object. It returns errLook if that has another UID.
func (w *writer) getSame(ctx context.Context, t *turn, uid string) (ownership.Meta, error) {
	m, err := w.target.Get(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) || err == nil && m.UID != uid {
		return m, errLook
	}
	return m, err
}

// Whole implements fields.Asker by a dry run.
func (l *lookup) Whole(ctx context.Context) (*ownership.Meta, error) {
	body, err := l.body(l.turn, l.uid)
	if err != nil {
		return nil, err
	}
	m, err := l.target.TryApply(ctx, l.turn.view.Place, l.id, l.turn.view.As.Manager(), body)
	switch {
	case kubeclient.MissingObject(err, l.id):
		return nil, errLook
	case annotationsTooLong(err):
		return nil, measured(err, body, nil)
	case apierrors.IsInvalid(err) && !kubeclient.PreconditionFailed(err): // it says nothing of what would be applied
		return nil, fmt.Errorf("%w: the location does not show how it keeps the object: %s", fields.ErrCannotRelease, kubeclient.StatusOf(err).Message)
	}
	return &m, err
}

// takeOver moves the managed fields of earlier locations of the name, in an object of
// ours, to this location.
func (w *writer) takeOver(ctx context.Context, t *turn, m ownership.Meta) (ownership.Meta, error) {
	fields, moved := ownership.TakeOver(m.ManagedFields, t.view.As)
	if !moved {
		return m, nil
	}
	return w.patch(ctx, t, "hand over", ownership.SetFields(&m, fields))
}
