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

// Inspector answers inspect requests of the hub by the knowledge of a Reconciler.
type Inspector struct{ *Reconciler }

// Inspect answers an inspect request of the hub about the object at the target. It changes
// nothing at the target, in the store or in the worklist, and takes no item from a worker.
//
// The answer has the object only if the requesting space desires it, or has a record of it, and
// it belongs to that space by its marks or by the recorded UID. Values of Secrets and statuses
// never leave the agent. If a ServiceAccount applies the object, the answer has only what that
// account may read.
func (r Inspector) Inspect(ctx context.Context, q wire.InspectRequest) wire.InspectResponse {
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
	l := inspection{Reconciler: r.Reconciler, turn: t, source: o, all: q.All && !o.Resource.Concealed()}
	answer, err := l.answer(kubeclient.As(ctx, t.account()))
	if err != nil {
		return l.refused(err)
	}
	return answer
}

// inspection is one inspect request.
type inspection struct {
	*Reconciler
	turn   *turn
	source key.Object
	// all is true if the answer has the fields of other managers, too.
	all bool
}

// errNotOurs is returned if the object at the target belongs to another owner.
var errNotOurs = errors.New("an object that Orrery has not placed there has its name")

func untold(reason, message string) wire.InspectResponse {
	return wire.InspectResponse{Reason: reason, Message: wire.Brief(message)}
}

// answer compares what is at the target with what the next apply would make of it, by a
// dry run, which knows how the cluster defaults, merges and spells values.
func (l *inspection) answer(ctx context.Context) (answer wire.InspectResponse, err error) {
	t := l.turn
	var rendering []byte
	if w := t.want(); w != nil && w.Object() != nil {
		answer.Digest = w.Object().Digest
		if rendering, err = l.writer.rendering(t); err != nil {
			return answer, err
		}
	}
	there, err := l.Target.GetAll(ctx, t.view.Place, t.id)
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
		return l.compose(answer, side{[]byte(there.JSON), l.selection(mine)}, side{})
	}
	m := there.Metadata
	body, err := l.inspected(ctx, t, &m)
	if err != nil {
		return answer, err
	}
	then, err := l.Target.TryApplyAll(ctx, t.view.Place, t.id, t.view.As.Manager(), body)
	switch {
	case err == nil:
	case kubeclient.Unavailable(err), kubeclient.MissingObject(err, t.id), kubeclient.PreconditionFailed(err):
		return answer, err
	default: // no dry run shows what else the object would become
		answer.Message = "the location refuses the desired object, which is shown as it is written"
		if why := l.refused(err); why.Message != "" {
			answer.Message = wire.Brief(answer.Message + ": " + why.Message)
		}
		return l.compose(answer, side{[]byte(there.JSON), mine}, side{text: body})
	}
	if mine, err = fields.Owned(t.view.As, &there.Metadata, &then.Metadata); err != nil {
		return answer, err
	}
	return l.compose(answer, side{[]byte(there.JSON), l.selection(mine)}, side{[]byte(then.JSON), l.selection(mine)})
}

// selection returns the set of fields that are shown, of those that the location owns; nil: all.
func (l *inspection) selection(mine *fieldpath.Set) *fieldpath.Set {
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
func (l *inspection) compose(answer wire.InspectResponse, live, desired side) (wire.InspectResponse, error) {
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
		metadata["name"] = l.source.Name
		if delete(metadata, "namespace"); l.source.Namespace != "" {
			metadata["namespace"] = l.source.Namespace
		}
		shown[i] = object
	}
	if l.source.Resource.Concealed() {
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

// refused is the answer if the agent may show nothing because of the target's answer, or of the
// object there. The message of a cluster about a Secret might quote it, so it is left out.
func (l *inspection) refused(err error) wire.InspectResponse {
	var reason, message string
	switch {
	case errors.Is(err, errNotOurs):
		return untold(v1alpha1.ReasonExists, err.Error()+"; nothing of it is shown")
	case errors.Is(err, errLook), errors.Is(err, errOutdated), kubeclient.PreconditionFailed(err):
		return untold(v1alpha1.ReasonTargetUnavailable, "the object at the location changes faster than it can be looked at")
	case errors.Is(err, fields.ErrMalformed):
		reason, message = v1alpha1.ReasonMalformed, err.Error()
	case errors.Is(err, fields.ErrCannotRelease):
		reason, message = v1alpha1.ReasonCannotRelease, err.Error()
	default:
		_, reason, message = kubeclient.Refusal(err)
	}
	if l.source.Resource.Concealed() {
		message = ""
	}
	return untold(reason, message)
}

// ours reports whether an object at the target is the one that the location has placed for
// the requesting space.
func (l *inspection) ours(m *ownership.Meta) bool {
	if rec := l.turn.record; rec != nil && rec.Space == l.source.Space && rec.UID == m.UID {
		return true
	}
	located, ours := m.ProvesOurs(l.turn.view.As, l.turn.kind())
	return ours && located.Space == l.source.Space
}
