package reconcile

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/fields"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Look answers the hub's question what is at the target in the place of an object. It
// changes nothing, at the target, in the store or in the engine, and takes no item from a
// worker.
//
// The hub learns of nothing by it but of objects that are the location's: it is told what
// is there only if that is desired by, or recorded for, the space that asks, and is an
// object of that space by its marks or by the recorded UID. Values of Secrets never leave
// the agent, nor does a status, and where a ServiceAccount acts for an object, only what
// that may read does.
func (r *Reconciler) Look(ctx context.Context, q wire.InspectRequest) wire.InspectResponse {
	o, err := key.ParsePath(q.Key)
	if err != nil {
		return untold(v1alpha1.ReasonNotPlaced, "this is no object: "+err.Error())
	}
	const nothing = "the location has nothing of it"
	it, known := r.Engine.Find(r.Store.Meta().Placing.TargetIdentity(o))
	if !known {
		return untold(v1alpha1.ReasonNotPlaced, nothing)
	}
	t, err := r.read(it)
	switch {
	case err != nil:
		return untold(v1alpha1.ReasonTargetUnavailable, "the agent's store can't be read")
	case t.winner < 0 && t.record == nil:
		return untold(v1alpha1.ReasonNotPlaced, nothing)
	case t.object().Space != o.Space:
		return untold(v1alpha1.ReasonOtherSpace, wire.OtherSpace)
	}
	l := look{Reconciler: r, turn: t, of: o, all: q.All && !o.Resource.Concealed()}
	answer, err := l.answer(kubeclient.As(ctx, t.account()))
	if err != nil {
		return l.refused(err)
	}
	return answer
}

// look is one look at the target.
type look struct {
	*Reconciler
	turn *turn
	of   key.Object
	// all says that the fields of others are to be shown, too.
	all bool
}

// errNotOurs says that the object at the target is somebody else's.
var errNotOurs = errors.New("an object that Orrery has not placed there has its name")

func untold(reason, message string) wire.InspectResponse {
	return wire.InspectResponse{Reason: reason, Message: wire.Brief(message)}
}

// answer compares what is at the target with what the next apply would make of it, by a
// dry run, which knows how the cluster defaults, merges and spells values.
func (l *look) answer(ctx context.Context) (answer wire.InspectResponse, err error) {
	t := l.turn
	var rendering []byte
	if w := t.want(); w != nil && w.Object() != nil {
		answer.Digest = w.Object().Digest
		if rendering, err = l.writer.rendering(t); err != nil {
			return answer, err
		}
	}
	there, err := l.Target.GetAll(ctx, t.view.At, t.id)
	switch {
	case kubeclient.MissingObject(err, t.id):
		return l.compose(answer, side{}, side{text: rendering})
	case err != nil:
		return answer, err
	case !l.ours(&there.Metadata):
		return answer, errNotOurs
	}
	mine, err := fields.Owned(t.view.As, &there.Metadata)
	if err != nil {
		return answer, err
	}
	if rendering == nil {
		return l.compose(answer, side{[]byte(there.JSON), l.part(mine)}, side{})
	}
	m := there.Metadata
	body, err := l.inspected(ctx, t, &m)
	if err != nil {
		return answer, err
	}
	then, err := l.Target.TryApplyAll(ctx, t.view.At, t.id, t.view.As.Manager(), body)
	switch {
	case err == nil:
	case kubeclient.Unavailable(err), kubeclient.MissingObject(err, t.id), kubeclient.PreconditionFailed(err):
		return answer, err
	default: // there is no dry run to say what else it would become
		answer.Message = "the location refuses what is desired, which is shown as it is written"
		if why := l.refused(err); why.Message != "" {
			answer.Message = wire.Brief(answer.Message + ": " + why.Message)
		}
		return l.compose(answer, side{[]byte(there.JSON), mine}, side{text: body})
	}
	if mine, err = fields.Owned(t.view.As, &there.Metadata, &then.Metadata); err != nil {
		return answer, err
	}
	return l.compose(answer, side{[]byte(there.JSON), l.part(mine)}, side{[]byte(then.JSON), l.part(mine)})
}

// part is the set of fields that are shown, of those that the location owns; nil: all.
func (l *look) part(mine *fieldpath.Set) *fieldpath.Set {
	if l.all {
		return nil
	}
	return mine
}

// side is an object, and the fields of it that are shown; nil: all.
type side struct {
	text []byte
	only *fieldpath.Set
}

// compose completes an answer by both sides, each of which may have no object.
func (l *look) compose(answer wire.InspectResponse, live, desired side) (wire.InspectResponse, error) {
	var shown [2]map[string]any
	for i, s := range []side{live, desired} {
		if s.text == nil {
			continue
		}
		object, err := fields.Shown(s.text, s.only)
		if err != nil {
			return answer, err
		}
		metadata, ok := object["metadata"].(map[string]any)
		if !ok {
			metadata = map[string]any{}
			object["metadata"] = metadata
		}
		metadata["name"] = l.of.Name
		if delete(metadata, "namespace"); l.of.Namespace != "" {
			metadata["namespace"] = l.of.Namespace
		}
		shown[i] = object
	}
	if l.of.Resource.Concealed() {
		fields.Mask(shown[0], shown[1])
	}
	var err error
	if answer.Live, err = fields.Encode(shown[0]); err != nil {
		return answer, err
	}
	if answer.Desired, err = fields.Encode(shown[1]); err != nil {
		return answer, err
	}
	if size := len(answer.Live) + len(answer.Desired) + maxWords; size > wire.MaxInspectResponse {
		return untold(v1alpha1.ReasonTooLarge, fmt.Sprintf("what there is to compare has %d bytes, and an answer at most %d", size, wire.MaxInspectResponse)), nil
	}
	return answer, nil
}

// maxWords is how many bytes an answer may have besides the two objects.
const maxWords = 8 << 10

// refused is the answer when the target, or what is there, lets the agent tell nothing. What
// a cluster says of a Secret might quote it, so that is left out.
func (l *look) refused(err error) wire.InspectResponse {
	var reason, message string
	switch {
	case errors.Is(err, errNotOurs):
		return untold(v1alpha1.ReasonExists, err.Error()+", of which nothing is told")
	case errors.Is(err, errLook), errors.Is(err, errOutdated), kubeclient.PreconditionFailed(err):
		return untold(v1alpha1.ReasonTargetUnavailable, "the object at the location changes faster than it can be looked at")
	case errors.Is(err, fields.ErrMalformed):
		reason, message = v1alpha1.ReasonMalformed, err.Error()
	case errors.Is(err, fields.ErrCannotRelease):
		reason, message = v1alpha1.ReasonCannotRelease, err.Error()
	default:
		_, reason, message = kubeclient.Refusal(err)
	}
	if l.of.Resource.Concealed() {
		message = ""
	}
	return untold(reason, message)
}

// ours says whether an object at the target is the one that the location has placed for
// the space that asks.
func (l *look) ours(m *ownership.Meta) bool {
	if rec := l.turn.record; rec != nil && rec.Space == l.of.Space && rec.UID == m.UID {
		return true
	}
	at, ours := m.ProvesOurs(l.turn.view.As, l.turn.kind())
	return ours && at.Space == l.of.Space
}
