package reconcile

import (
	"errors"
	"slices"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// refusedRetry is the first wait after the target refused an object.
	refusedRetry = 500 * time.Millisecond
	// maxRetry is the longest wait between attempts that the target refuses.
	maxRetry = time.Minute
	// dependencyRetry, pendingRetry and sharedRetry are how often one of the objects that wait for a Namespace has a
	// turn: until the Namespace has had its turn, until the hub has answered, and until another shard has made it.
	dependencyRetry = 50 * time.Millisecond
	pendingRetry    = time.Second
	sharedRetry     = 5 * time.Second
	// maxSteps bounds how often one turn decides again because the object was not as
	// it was thought to be.
	maxSteps = 4
)

// Errors of the agent itself.
var (
	// errLook is returned if the turn has to read whose object is at the target.
	errLook = errors.New("look again")
	// errUnsettled is returned when the object is another one at each look at it, or the target
	// refuses each request as if it were.
	errUnsettled = errors.New("the object at the location changes faster than it can be read")
	// errOutdated is returned when the desired object has changed since the turn began.
	errOutdated = errors.New("the desired object has changed meanwhile")
	// errDependency is returned while the object's Namespace is desired and has not had its turn.
	errDependency = errors.New("wait for the namespace")
	// errNamespace is returned when the object's namespace is desired and is not there.
	errNamespace = errors.New("the namespace is placed at the location and missing")
	// errShared is errNamespace for a namespace that is desired in another shard.
	errShared = errors.New("the namespace is placed at the location in another shard, and missing")
)

// turn is what a worker knows of one identity while it works on it.
type turn struct {
	id key.Identity // at the target
	// placing is where the location puts objects.
	placing key.Placing
	// shard is the part of the location that the agent has.
	shard    key.Shard
	view     worklist.View
	wants    []decide.Entry
	winner   int // index in wants; -1: no space desires it
	guarded  bool
	complete bool
	// replaced is when the cluster that the turn began with took the place of another one, outlived is set if the
	// store is of yet another one by the time when the outcome is written.
	replaced time.Time
	outlived bool
	// aggregated is true if the kind is of an aggregated API.
	aggregated bool
	// mark is the place of the last wire mark, delivered has the places at which the
	// entries arrived.
	mark      ownership.Pair
	delivered []ownership.Pair
	record    *store.Record
	live      *store.Live // how the object was last seen
	// completed is how the desired Job or Pod ran to its end; empty: it has not.
	completed string
	// hidden is why the health of the object may not be reported; empty: it may.
	hidden string
	// proven is true if the object needs no proof, even if the change failed.
	proven bool
	// homeless is true if the Namespace can't be created, so that one attempt is enough.
	homeless bool
	before   map[key.Space]*wire.Report
	// otherOwner is the other location that placed the object at the target; empty if none did.
	otherOwner ownership.Owner
	// formers are those that the location takes over from.
	formers []ownership.Owner
}

// outcome is what a turn leaves to write.
type outcome struct {
	decide.Decision
	record  *store.Record
	changed bool // the record has changed
	forget  bool // nothing is left at the target
	again   bool // with forget: but another object of ours has its name
	letGo   bool // the recorded object is no longer ours
	claim   bool // the record is of a stray: its removal is counted
	waits   bool // with claim and recreates: its removal waited for a confirmation before the store was lost
	// recreates is set for an object that is to be deleted and made anew, which is counted.
	recreates bool
	keep      bool // the last report stays
	slotted   bool // the retry is the object's slot
	seen      *decide.Observed
	failed    bool
	drifted   bool
	held      bool // it waits for others to be removed first
	hurried   bool // the object no longer waits for its Pods
	homeless  bool // it waits for its Namespace
	untried   bool // with homeless: for the first turn of that
	outdated  bool // the entry has changed since the turn began
}

// want is the entry to follow; nil if no space desires the object.
func (t *turn) want() *store.Want {
	if t.winner < 0 {
		return nil
	}
	return t.wants[t.winner].Want
}

// kind is that of the object as its marks have it.
func (t *turn) kind() ownership.Kind {
	return ownership.Kind{Resource: t.id.Resource, Name: t.view.Kind, Placing: t.placing, Shard: t.shard}
}

// object is the source object: the winner's, or else the one that was applied.
func (t *turn) object() key.Object {
	o := t.sourceIn("")
	switch {
	case t.winner >= 0:
		o.Space = t.wants[t.winner].Space
	case t.record != nil:
		o.Space = t.record.Space
	case len(t.view.Spaces) > 0:
		o.Space = t.view.Spaces[0]
	}
	return o
}

// located returns the source object with its identity at the location.
func (t *turn) located() key.Located { return t.placing.Locate(t.object()) }

// moved returns the namespace of the source object if the location has it in another one.
func (t *turn) moved() string { return t.located().Moved }

// sourceIn is the object in a space.
func (t *turn) sourceIn(s key.Space) key.Object {
	return key.Object{Space: s, Identity: t.view.Source}
}

// ended returns how the desired Job or Pod ran to its end, as observed or by its last report,
// which keeps it; empty: it did not. reported is true if the last report is of exactly the
// desired object.
func (t *turn) ended() (how string, reported bool) {
	w := t.want()
	if w == nil || w.Object() == nil {
		return "", false
	}
	space, s := t.object().Space, w.Object()
	if r := t.before[space]; r != nil && r.UID == s.UID && r.Digest == s.Digest {
		how, reported = r.Completed, true
	}
	rec := t.record
	if rec != nil && rec.Space == space && rec.Source.UID == s.UID && rec.Source.Digest == s.Digest &&
		t.view.Ending.UID == rec.UID && t.view.Ending.How != "" {
		how = t.view.Ending.How
	}
	return how, reported
}

// isAggregated reports whether a report is of an object of an aggregated API that is at the target, or may be.
// before is the former report; nil: there is none.
func isAggregated(t *turn, report, before *wire.Report) bool {
	mayExist := !report.Digest.IsZero() || report.Reason == v1alpha1.ReasonAnnounced ||
		t.record == nil && report.State == wire.Removing && before != nil && before.Aggregated
	return t.aggregated && mayExist
}

// concluded is a turn with its outcome.
type concluded struct {
	*turn
	outcome outcome
}

// reports returns the reports that the outcome changes, by path; nil removes one. gone
// are the spaces that have neither an entry nor a report of the identity any more.
func (t concluded) reports(now time.Time) (reports map[string]*wire.Report, gone []key.Space) {
	reports = map[string]*wire.Report{}
	o := t.outcome
	o.Completed = t.completed
	owner := t.object().Space
	for i, w := range t.wants {
		path, before := t.sourceIn(w.Space).Path(), t.before[w.Space]
		its := i == t.winner || t.winner < 0 && w.Space == owner && !o.forget && !w.Want.Desired() // the outcome is about its object
		var report wire.Report
		switch {
		case its && o.keep, !its && w.Want != nil && !w.Want.Desired() && t.mayBeOf(w.Space):
			continue
		case w.Yields && !o.forget:
			if before != nil {
				reports[path] = nil
			}
			continue
		case its:
			report = decide.Compose(w.Want, o.record, o.Decision, t.liveObject(before), before, now)
			report.Omitted = t.view.Unreturned
			report.Aggregated = isAggregated(t.turn, &report, before)
		case w.Want != nil && !w.Want.Desired():
			report = decide.Removed(w.Want, before, now)
		case w.Want != nil:
			report = decide.Compose(w.Want, nil, decide.Loses(), decide.Live{}, before, now)
		default:
			gone = append(gone, w.Space)
			if before != nil {
				reports[path] = nil
			}
			continue
		}
		if report = report.Fit(); before == nil || before.Sum() != report.Sum() {
			reports[path] = &report
		}
	}
	return reports, gone
}

// liveObject returns the reported facts about the object as it is at the target.
func (t concluded) liveObject(before *wire.Report) decide.Live {
	if t.hidden != "" {
		return decide.Live{Health: wire.HealthUnknown, Detail: t.hidden}
	}
	seen := t.view.Seen
	if t.outcome.seen != nil {
		seen = *t.outcome.seen
	}
	return decide.LiveOf(t.id.Resource, seen, t.outcome.record, t.live, t.completed, before)
}

// mayBeOf reports whether the object at the target after the turn belongs to a space, or may.
func (t concluded) mayBeOf(s key.Space) bool {
	switch seen := t.view.Seen.Existence; {
	case t.outcome.forget:
		return t.outcome.again
	case t.outcome.record != nil:
		return t.outcome.record.Space == s
	default: // the object there is not recorded
		return seen == decide.Present || seen == decide.Unseen || seen == decide.Blind
	}
}

// yields reports whether the object of a space is released, since no space desires it and that
// space watches it as an object of the location.
func (t *turn) yields(s key.Space) bool {
	return t.winner < 0 && slices.ContainsFunc(t.wants, func(w decide.Entry) bool { return w.Yields && w.Space == s })
}

// yieldsToShard reports whether the object at the target is to be removed, since an object of
// another shard has its name. The agent of that shard creates its own, and until then finds a
// foreign one. In a whole location the agent would follow the other object, and change this one.
func (t *turn) yieldsToShard() bool {
	w := t.want()
	if t.shard.Whole() || w == nil || w.Kind != store.WantConflict || w.Deferred || t.record == nil && t.view.Seen.Existence != decide.Present {
		return false
	}
	owner, err := key.ParsePath(w.Detail)
	return err == nil && !t.shard.Contains(owner.Space)
}

// confirms reports whether the hub is to receive that nothing is left of an object.
func (t *turn) confirms() bool {
	return t.winner < 0 && slices.ContainsFunc(t.wants, func(w decide.Entry) bool { return w.Want != nil })
}

// write puts the outcome of a turn into the store.
func (o *outcome) write(x *store.Tx, id string, t *turn, reports map[string]*wire.Report, now time.Time) error {
	var err error
	switch {
	case o.forget:
		err = x.Forget(id)
	case o.letGo:
		err = x.Orphan(id)
	case o.claim:
		err = x.CountRemoval(id, o.record, o.waits, now)
	case o.recreates:
		err = x.CountRecreation(id, o.record, t.object(), *t.want().Object(), o.waits, now)
	case o.changed:
		err = x.PutRecord(id, o.record)
	}
	if err != nil {
		return err
	}
	for path, r := range reports {
		if err := x.Reports.Set(path, r); err != nil {
			return err
		}
	}
	return nil
}
