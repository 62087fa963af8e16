package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/internal/agent/fields"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// writer composes and sends the requests that change a turn's object: the object with its
// marks, with or without its released values, or only marks or managed fields.
type writer struct {
	store  *store.Store
	target *kubeclient.Client
}

// putMarks writes the marks of the body of an apply, and nothing else of it.
func (w *writer) putMarks(ctx context.Context, t *turn, body []byte) (ownership.Meta, error) {
	only, err := ownership.Only(body)
	if err != nil {
		return ownership.Meta{}, err
	}
	m, err := w.target.Merge(ctx, "mark", t.view.Place, t.id, t.view.As.Manager(), only)
	return m, measured(err, only, nil)
}

// patch sends a merge patch to the object of the turn, if the patch's preconditions hold.
func (w *writer) patch(ctx context.Context, t *turn, verb string, patch any) (ownership.Meta, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return ownership.Meta{}, fmt.Errorf("encode a patch: %w", err)
	}
	return w.target.Merge(ctx, verb, t.view.Place, t.id, t.view.As.Manager(), body)
}

// rendering is the desired object as the hub sent it, without duplicates in lists of Pods that have no effect, and
// without the rules of an aggregated ClusterRole.
// It returns errOutdated if the store no longer has the object of the turn: another one may have another policy.
func (w *writer) rendering(t *turn) (object []byte, err error) {
	err = w.store.View(func(x *store.Tx) error {
		if object = bytes.Clone(x.Desired.Object(t.object().Path(), t.want().Object().Digest)); object == nil {
			return errOutdated
		}
		return nil
	})
	if err != nil || !t.id.Builtin() {
		return object, err
	}
	if object, err = fields.WithoutAggregated(t.id.Resource, object); err != nil {
		return nil, err
	}
	return fields.WithoutDuplicates(object)
}

// body is the whole desired object, with our marks, as it is sent to the target. uid is
// that of the object to apply it to; empty: it is to be created.
func (w *writer) body(t *turn, uid string) ([]byte, error) {
	object, err := w.rendering(t)
	if err != nil {
		return nil, err
	}
	return w.bodyOf(t, object, t.source(), uid)
}

// bodyOf is body for a given object, with the ownership metadata for a source.
func (w *writer) bodyOf(t *turn, object []byte, source *store.Source, uid string) ([]byte, error) {
	body, err := ownership.ApplyBody(object, t.view.As, t.located(), ownership.Origin{
		UID: source.UID, Log: source.Log, Orphan: source.Policy.Orphan, Account: source.Policy.ServiceAccount,
	}, uid)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fields.ErrMalformed, err)
	}
	return body, nil
}
