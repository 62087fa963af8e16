package reconcile

import (
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// A target may stop serving a version in which objects are desired. An object is the same
// in every version, so it is observed, found and removed in one that is served
// (observer.elsewhere). Only an apply needs the version that the object is written in:
// until that is served again, or the object in the space is written in another version,
// the object at the target stays as it is, and the report has the reason.

// endedVersion reports whether the target refused a version, and shows objects of the kind in
// another one.
func (t *turn) endedVersion(err error) bool {
	return kubeclient.MissingKind(err) && t.winner >= 0 && t.view.Shown != "" && t.view.Shown != t.view.Place.Version
}

// withoutVersion is the outcome of an apply in a version that is not served. An object
// that is there is recorded as drifted: without a record nothing may prove it to be ours,
// since an API server drops managed fields of versions that it does not serve.
func (t *turn) withoutVersion() outcome {
	o := outcome{record: t.record, failed: true, Decision: decide.Decision{
		State: wire.Unsupported, Reason: v1alpha1.ReasonNoSuchVersion, Retry: retry.Backoff(t.view.Failures, refusedRetry, maxRetry),
		Message: fmt.Sprintf("the location serves %s in version %s, not in %s; the object there stays as it is", t.id.Resource, t.view.Shown, t.view.Place.Version),
	}}
	seen, s := t.view.Seen, t.want().Object()
	if t.record != nil || seen.Existence != decide.Present || seen.Terminating || s == nil {
		return o
	}
	rec := &store.Record{
		Space: t.object().Space, Moved: t.moved(), UID: seen.UID, Fields: ^seen.Fields, Version: t.view.Shown, Kind: t.view.Kind,
		Source: store.Source{UID: s.UID, Policy: s.Policy},
	}
	if before := t.before[rec.Space]; before != nil && before.UID == s.UID {
		rec.Source.Digest, rec.Source.Generation = before.Digest, before.Generation
	}
	o.record, o.changed = rec, true
	return o
}

// remembers reports whether the last report is of the object that has the marks: it was applied
// then, even if its managed fields do not show it now.
func (t *turn) remembers(space key.Space, m *ownership.Meta) bool {
	before := t.before[space]
	return before != nil && !before.Digest.IsZero() && before.Reason != v1alpha1.ReasonReleased && before.UID == m.Annotations[v1alpha1.SourceUIDAnnotation]
}
