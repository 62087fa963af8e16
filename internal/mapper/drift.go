package mapper

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// maxNamed bounds how many fields a message names.
const maxNamed = 8

// note records the object at the target as it is.
func (r *reconciler) note(t *turn, f facts, d decision) outcome {
	source := *t.want().object()
	stands := source
	if stands.Log = f.seen.log; f.seen.presence == blind {
		stands.Log = t.record.Source.Log
	}
	rec := &record{
		Space: t.object().Space, Source: stands, UID: d.uid, As: t.view.as, Fields: f.seen.fields,
		Version: t.view.at.version, Kind: t.view.kind,
	}
	o := outcome{decision: applied(source), record: rec, changed: true}
	if (facts{record: rec}).stale(source) {
		o.retry = 1
	}
	if f.seen != t.view.seen {
		o.seen = &f.seen
	}
	return o
}

// inspect finds out which fields of an object are no longer as we left them, and
// reports them. It changes nothing: the API server is asked what an apply would do.
func (r *reconciler) inspect(ctx context.Context, t *turn, f facts, d decision) (outcome, error) {
	there, err := r.target.getAnswered(ctx, t.view.at, t.id)
	if missingObject(err, t.id) || err == nil && there.Metadata.UID != d.uid {
		return outcome{}, errLook
	}
	if err != nil {
		return outcome{}, err
	}
	now := there.Metadata
	body, err := r.inspected(ctx, t, &now)
	if err != nil {
		return outcome{}, err
	}
	then, err := r.target.tryApply(ctx, t.view.at, t.id, t.view.as.manager(), body)
	if err != nil {
		return outcome{}, err
	}
	fields, err := lostFields(&then, &now, t.view.as)
	if err != nil {
		return outcome{}, err
	}
	f.seen.fields, f.seen.log = now.fields(t.view.as), now.log()
	o := r.note(t, f, d)
	if f.unsaid(o.record.Source) { // and can be said when there is no drift
		o.record.Source.Policy.Orphan, o.retry = t.record.Source.Policy.Orphan, 1
	}
	if len(fields) == 0 && f.seen.unmarked { // they are those of a location that this one was
		return r.mark(ctx, t, decision{uid: d.uid, left: t.record != nil})
	}
	if len(fields) == 0 {
		return r.compared(t, o, body, there), nil // another has said the same
	}
	if t.record != nil {
		rec := *t.record
		rec.As = t.view.as
		o.record, o.changed = &rec, f.former && !f.seen.unmarked
	} else {
		o.record.Fields = ^o.record.Fields // what we left there is not known, but it was not this
	}
	o.decision = decision{state: wire.Failed, reason: v1alpha1.ReasonDrifted, message: driftMessage(fields)}
	if f.seen.unmarked {
		o.retry = foreignRetry // the watch does not show it
	}
	return o, nil
}

// inspected is what an apply would apply to the object that m was read from.
func (r *reconciler) inspected(ctx context.Context, t *turn, m *objectMeta) ([]byte, error) {
	object, err := r.rendering(t)
	if err != nil {
		return nil, err
	}
	if t.want().object().Policy.Release != "" {
		x, err := r.lease(ctx, t, object, m)
		if err != nil {
			return nil, err
		}
		if object, err = x.rest(object); err != nil {
			return nil, err
		}
	}
	of := *t.want().object()
	of.Log = m.log() // which is no drift, whatever it says
	if t.record != nil {
		of.Policy.Orphan = t.record.Source.Policy.Orphan // whose mark nobody has changed
	}
	return r.dressed(t, object, &of, m.UID)
}

func driftMessage(fields []string) string {
	return clip("changed at the location, and left so until the object in the space changes: " + listing(fields))
}

// lostFields are the fields that the location's manager has in then and not in now.
func lostFields(then, now *objectMeta, l identity) ([]string, error) {
	all, err := then.fieldSet(l)
	if err != nil {
		return nil, err
	}
	kept, err := now.fieldSet(l)
	if err != nil {
		return nil, err
	}
	var lost []string
	// A refresh owns it otherwise than an apply, and so does what marks alone.
	kept.Insert(fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.LogAnnotation))
	if now.Labels[locationLabel] == string(l) {
		kept.Insert(fieldpath.MakePathOrDie("metadata", "labels", locationLabel))
	}
	all.Difference(kept).Leaves().Iterate(func(p fieldpath.Path) { lost = append(lost, p.String()) })
	return lost, nil
}

// fieldSet is what the location's manager owns in the object.
func (m *objectMeta) fieldSet(l identity) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if !f.appliedBy(l.manager()) {
			continue
		}
		if err := set.FromJSON(bytes.NewReader(f.FieldsV1)); err != nil {
			return nil, fmt.Errorf("decode managed fields: %w", err)
		}
	}
	return set, nil
}

// tryApply is apply without effect.
func (t *target) tryApply(ctx context.Context, p place, id key.Identity, manager string, body []byte) (objectMeta, error) {
	var o observation
	err := t.do(ctx, request{
		verb: "try", method: http.MethodPatch, path: p.object(id), accept: smallAnswer, content: applyPatch, body: body,
		query: url.Values{"fieldManager": {manager}, "force": {"true"}, "dryRun": {"All"}},
	}, &o)
	return o.Metadata, err
}

// merge merges a patch into an object that is as the patch says. The verb names what
// that is for.
func (t *target) merge(ctx context.Context, verb string, p place, id key.Identity, l identity, body []byte) (objectMeta, error) {
	var o observation
	err := t.do(ctx, request{
		verb: verb, method: http.MethodPatch, path: p.object(id), accept: smallAnswer, content: mergePatch, body: body,
		query: url.Values{"fieldManager": {l.manager()}},
	}, &o)
	return o.Metadata, err
}

// marksOnly is a patch that makes the marks of an object those of the body of an apply.
func marksOnly(body []byte) ([]byte, error) {
	var err error
	only := []byte(`{}`)
	marks := []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}
	for field, names := range markNames {
		for _, name := range names {
			marks = append(marks, "metadata."+field+"."+strings.ReplaceAll(name, ".", `\.`))
		}
	}
	for _, path := range marks {
		if v := gjson.GetBytes(body, path); v.Exists() {
			if only, err = sjson.SetRawBytes(only, path, []byte(v.Raw)); err != nil {
				return nil, fmt.Errorf("make body of marks: %w", err)
			}
		}
	}
	for _, name := range []string{v1alpha1.OnRemoveAnnotation, v1alpha1.LogAnnotation} {
		none := "metadata.annotations." + strings.ReplaceAll(name, ".", `\.`)
		if gjson.GetBytes(only, none).Exists() {
			continue
		}
		if only, err = sjson.SetRawBytes(only, none, []byte("null")); err != nil {
			return nil, fmt.Errorf("make body of marks: %w", err)
		}
	}
	return only, nil
}
