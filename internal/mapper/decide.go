package mapper

import (
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/wire"
)

// presence is what is observed of an identity at the target.
type presence uint8

const (
	// unseen: the resource has not been listed yet.
	unseen presence = iota
	// unserved: the target does not serve the resource.
	unserved
	// blind: the agent cannot list or watch the resource.
	blind
	// absent: nothing with our label is there; a foreign object may be.
	absent
	// present: an object that proves to be ours is there.
	present
	// foreign: an object is there that does not prove to be ours.
	foreign
)

// observed is what is known of an identity at the target.
type observed struct {
	presence presence
	// terminating: the object is being deleted. unmarked: it is ours by its UID only,
	// and the watch does not show it. taken: the last look found a foreign object.
	// owned: that object is not adopted, since a controller or another location has it.
	// released: it has fields of marks.ReleasedManager.
	terminating, unmarked, taken, owned, released bool
	uid                                           string
	revision                                      uint64
	fields                                        marks.FieldsHash
	// log is the place in the log at which it was last written.
	log marks.Pair
}

// action is what to do at the target.
type action uint8

const (
	// doNothing: there is nothing to do, or nothing can be done now.
	doNothing action = iota
	// doApply: apply the object, provided that the one at the target has decision.uid,
	// or that there is none if that is empty.
	doApply
	// doLook: find out whose object is there.
	doLook
	// doNote: record the object that has decision.uid as it is.
	doNote
	// doMark: give the object that has decision.uid our marks, change nothing else of
	// it, and record it.
	doMark
	// doInspect: find out which fields of the object that has decision.uid have drifted.
	doInspect
	// doRefresh: write the desired pair to the object that has decision.uid.
	doRefresh
	// doRemove: delete the object that has decision.uid.
	doRemove
	// doLetGo: orphan the object that has decision.uid: take our marks from it.
	doLetGo
	// doForget: nothing is left at the target; drop the record.
	doForget
	// doHurry: the object that has decision.uid is terminating; have it no longer wait
	// for its Pods.
	doHurry
	// doVerifyKind: the resource is not served; find out whether it is gone.
	doVerifyKind
	// doClaim: an object proves to be ours but is neither recorded nor desired; record
	// it, so that it is removed like any other.
	doClaim
)

// How long to wait for changes that no watch shows.
const (
	foreignRetry     = time.Minute
	terminatingRetry = 30 * time.Second
	strayRetry       = time.Minute
)

// decision is what to do about one identity, and what to report of it if the action
// does not change that.
type decision struct {
	do  action
	uid string
	// drift says that the object at the target is not as we left it.
	drift bool
	// adopt says that the object at the target is not ours yet; again, that it is as
	// our last apply left it, which admission had changed.
	adopt bool
	again bool
	// left says that the object gets our marks, and that its drift stays.
	left    bool
	state   wire.State
	reason  string
	message string
	// completed is how the desired Job or Pod ran to its end; empty: it has not.
	completed string
	// retry is how long to wait before looking again without an event; zero: no retry.
	retry time.Duration
	// proof is the proof that the object waits for, if it waits for one.
	proof marks.Proof
}

// facts are what a decision is made from.
type facts struct {
	// space is that of the source object, and want its desired entry; nil: the
	// object is not desired.
	space  key.Space
	want   *store.Want
	record *store.Record
	seen   observed
	// former says that the object has the marks of an earlier location of the same name,
	// so that no list shows it; looked says that the target was asked for it.
	former, looked bool
	// guarded says that the removal waits for a confirmation.
	guarded bool
	// completed is how the desired Job or Pod ran to its end, so that it must not run
	// again; empty: it has not. reported says that the last report has it as applied.
	completed string
	reported  bool
	// traced says that nothing is recorded, but an object of ours may still be there,
	// which the pending list will show.
	traced bool
	// again is how long to wait until what admission changes is applied again.
	again time.Duration
	// lingers is how long the report of an orphaned object still stays.
	lingers time.Duration
	// proof says whether the object that was seen is proven to be written from the hub's log.
	proof marks.Proof
	// pods says that the object at the target may own Pods, overdue that it has been
	// terminating for longer than those may take.
	pods, overdue bool
	// settled says that a session has proved the desired content to be complete: what is
	// not in it is not desired.
	settled bool
}

// decide decides about one identity. It is a pure function.
func decide(f facts) decision {
	switch {
	case f.want == nil:
		return decideRemoval(f)
	case f.want.Kind == store.WantConflict:
		return decision{state: wire.InConflict, reason: v1alpha1.ReasonOtherSpace, message: wire.OtherSpace(f.want.Note)}
	case f.want.Object() == nil:
		return decision{state: wire.Held, reason: v1alpha1.ReasonNothingToKeep, message: f.want.Note}
	}
	return decideObject(f, *f.want.Object())
}

func decideObject(f facts, s store.Source) decision {
	seen, rec := f.seen, f.record
	changed := f.changed(s)
	switch seen.presence {
	case unseen:
		return decision{} // the pending list gives it another turn
	case unserved:
		return decision{state: wire.Unsupported, reason: v1alpha1.ReasonNoSuchResource, message: "the location does not serve this resource"}
	case present:
		switch {
		case !seen.terminating && f.proof.Waits():
			return unprovenWait(f.proof)
		case !seen.terminating:
			return decidePresent(f, s, changed)
		}
	}
	switch {
	case f.former && !f.looked && (seen.presence == absent || seen.presence == blind):
		return decision{do: doLook}
	case f.completed != "" && rec != nil && !f.looked && seen.presence == absent: // it may be there without its marks
		return decision{do: doLook}
	case f.completed != "":
		return decision{state: wire.Applied, reason: v1alpha1.ReasonCompleted}
	case seen.presence == present && f.overdue:
		return decision{do: doHurry, uid: seen.uid}
	case seen.presence == present:
		return decision{
			state: wire.Waiting, reason: v1alpha1.ReasonTerminating, retry: terminatingRetry,
			message: "the object at the location is being deleted; it is made again when it is gone",
		}
	case seen.presence == foreign && s.Policy.Adopt && !seen.owned && f.proof.Waits():
		return unprovenWait(f.proof)
	case seen.presence == foreign:
		return decideForeign(seen, s)
	case seen.presence == blind && !changed && !f.unsaid(s) && f.stale(s):
		return decision{do: doRefresh, uid: rec.UID}
	case seen.presence == blind && !changed && !f.unsaid(s):
		return f.standing(s, rec.UID)
	case seen.presence == blind && rec != nil && s.Policy.CreateOnly && !f.replaced(s) && f.unsaid(s):
		return decision{do: doMark, uid: rec.UID}
	case seen.presence == blind && rec != nil && s.Policy.CreateOnly && !f.replaced(s):
		return decision{do: doNote, uid: rec.UID}
	case seen.presence == blind && rec != nil:
		return decision{do: doApply, uid: rec.UID}
	case seen.taken:
		return decision{do: doLook}
	}
	return decision{do: doApply, drift: !changed}
}

// replaced says that the record is of another source object.
func (f facts) replaced(s store.Source) bool {
	return f.record != nil && (f.record.Space != f.space || f.record.Source.UID != s.UID)
}

// changed says that what was applied last is not what is desired now. Values that were
// not enforced, since the object was CreateOnly or they were released, may be anything.
func (f facts) changed(s store.Source) bool {
	was := f.record
	if was == nil || f.replaced(s) || was.Source.Digest != s.Digest {
		return true
	}
	p := was.Source.Policy
	return !s.Policy.CreateOnly && (p.CreateOnly || p.Release != s.Policy.Release || s.Policy.Release == "" && f.seen.released)
}

// unsaid says that the object's orphan mark at the target is not as the policy is now.
func (f facts) unsaid(s store.Source) bool {
	return f.record != nil && f.record.Source.Policy.Orphan != s.Policy.Orphan
}

// decidePresent is about an object at the target that is ours.
func decidePresent(f facts, s store.Source, changed bool) decision {
	seen, rec := f.seen, f.record
	known := rec != nil && seen.uid == rec.UID
	asLeft := known && seen.fields == rec.Fields // even if an earlier location of the name left it
	same := asLeft && !seen.unmarked
	switch {
	case s.Policy.CreateOnly && !f.replaced(s):
		switch {
		case seen.unmarked: // the watch does not show it, so its deletion would go unseen
			return decision{do: doMark, uid: seen.uid, drift: known && !changed}
		case known && f.unsaid(s):
			return decision{do: doMark, uid: seen.uid}
		case !known || changed || f.former:
			return decision{do: doNote, uid: seen.uid}
		case f.stale(s):
			return decision{do: doRefresh, uid: seen.uid}
		}
		return applied(s)
	case same && !changed && f.unsaid(s), asLeft && !changed && f.former:
		return decision{do: doApply, uid: seen.uid}
	case known && !changed && f.former && seen.unmarked && s.Policy.ReportDrift:
		return decision{do: doMark, uid: seen.uid, left: true}
	case known && !changed && !seen.unmarked && f.stale(s) && (same || s.Policy.ReportDrift):
		return decision{do: doRefresh, uid: seen.uid}
	case same && !changed && f.completed != "":
		return decision{state: wire.Applied, reason: v1alpha1.ReasonCompleted}
	case same && !changed:
		return f.standing(s, seen.uid)
	case s.Policy.ReportDrift && (known && !changed || rec == nil && f.reported):
		return decision{do: doInspect, uid: seen.uid}
	}
	return decision{do: doApply, uid: seen.uid, drift: !changed}
}

// decideForeign is about an object at the target that is not ours.
func decideForeign(seen observed, s store.Source) decision {
	switch {
	case s.Policy.Adopt && !seen.owned && s.Policy.CreateOnly:
		return decision{do: doMark, uid: seen.uid, adopt: true}
	case s.Policy.Adopt && !seen.owned:
		return decision{do: doApply, uid: seen.uid, adopt: true}
	}
	d := decision{
		state: wire.InConflict, reason: v1alpha1.ReasonExists, retry: foreignRetry,
		message: "an object of this name that Orrery did not make is at the location; ",
	}
	if s.Policy.Adopt {
		d.message += "it is not adopted, since a controller or another location has it"
	} else {
		d.message += "it is left alone until it is deleted there, or onConflict of the Placement is Adopt"
	}
	return d
}

// applied is the decision about an object that is as desired.
func applied(s store.Source) decision {
	if s.Policy.CreateOnly {
		return decision{state: wire.Applied, reason: v1alpha1.ReasonCreateOnly, message: "it was made and is not changed afterwards"}
	}
	return decision{state: wire.Applied}
}

func decideRemoval(f facts) decision {
	seen, rec := f.seen, f.record
	switch {
	case rec == nil && f.lingers > 0:
		return decision{retry: f.lingers}
	case rec == nil && seen.presence == present && f.settled && f.proof.Waits():
		return unprovenWait(f.proof)
	case rec == nil && seen.presence == present && f.settled:
		return decision{do: doClaim, uid: seen.uid}
	case rec == nil && seen.presence == present: // the hub may desire it; the agent cannot tell yet
		return decision{retry: strayRetry, proof: f.proof}
	case rec == nil && seen.presence == unseen && f.traced:
		return decision{} // the pending list gives it another turn
	case rec == nil:
		return decision{do: doForget}
	case f.guarded && !rec.Source.Policy.Orphan:
		return decision{
			state: wire.Removing, reason: v1alpha1.ReasonPruneGuard,
			message: "more removals than the location allows at once; this one waits for a confirmation",
		}
	case seen.presence == unseen:
		return decision{}
	case seen.presence == unserved:
		return decision{do: doVerifyKind}
	case seen.presence == present && seen.uid == rec.UID && seen.terminating && !seen.unmarked: // the watch shows when it is gone
		if f.overdue {
			return decision{do: doHurry, uid: rec.UID}
		}
		return terminating(f.pods)
	case rec.Source.Policy.Orphan:
		return decision{do: doLetGo, uid: rec.UID}
	}
	return decision{do: doRemove, uid: rec.UID}
}

// terminating is the decision about an object that is being deleted; pods says that it
// may own Pods.
func terminating(pods bool) decision {
	d := decision{state: wire.Removing, reason: v1alpha1.ReasonTerminating, retry: terminatingRetry}
	if pods {
		d.message = "it is gone when its Pods have ended"
	}
	return d
}

// spaceWant is one space's desired entry of an identity.
type spaceWant struct {
	space key.Space
	want  *store.Want
}

// choose returns the index of the entry that an identity at the target follows: one
// with an object before one without, then that of the space that the object there came
// from, then the first by name. It returns -1 if no space has an entry.
func choose(wants []spaceWant, rec *store.Record) int {
	best := -1
	for i, w := range wants {
		if w.want == nil {
			continue
		}
		if best < 0 || precedes(w, wants[best], rec) {
			best = i
		}
	}
	return best
}

func precedes(a, b spaceWant, rec *store.Record) bool {
	if has, had := a.want.Object() != nil, b.want.Object() != nil; has != had {
		return has
	}
	if rec != nil && (a.space == rec.Space) != (b.space == rec.Space) {
		return a.space == rec.Space
	}
	return a.space < b.space
}

// compose makes the report of one key; before is the last one, nil if there is none.
// Since is kept as long as state and reason stay the same.
func compose(w *store.Want, rec *store.Record, d decision, status []byte, before *wire.Report, now time.Time) wire.Report {
	r := wire.Report{State: d.state, Reason: d.reason, Message: d.message}
	if d.proof == marks.Missing && before != nil && (w == nil || w.Leaf.UID == before.UID) {
		// Nothing has changed of what was applied last.
		r.UID, r.Generation, r.Digest, r.Orphan = before.UID, before.Generation, before.Digest, before.Orphan
	}
	if rec != nil {
		r.UID, r.Digest, r.Generation = rec.Source.UID, rec.Source.Digest, rec.Source.Generation
		r.Orphan = rec.Source.Policy.Orphan
	}
	if w != nil {
		r.UID = w.Leaf.UID
		if o := w.Object(); o != nil {
			r.Generation, r.Orphan = o.Generation, o.Policy.Orphan
			if d.completed != "" {
				r.Completed, r.Digest = d.completed, o.Digest
			}
			if o.Policy.ReturnStatus && rec != nil {
				r.Status = sourceStatus(status, rec)
			}
		}
		switch {
		case w.Deferred:
			r.State, r.Reason = wire.Waiting, v1alpha1.ReasonLineageUnproven
			r.Message = "a change waits until the hub's log is accepted as the continuation of the one before"
		case w.Kind == store.WantHold:
			r.State, r.Reason, r.Message = wire.Held, "RuleFailed", w.Note
		}
	}
	r.Since = now.UTC().Format(time.RFC3339)
	if before != nil && before.State == r.State && before.Reason == r.Reason {
		r.Since = before.Since
	}
	return r
}
