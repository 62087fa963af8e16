package mapper

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/hub"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/mapper/target"
	"orrery.dev/orrery/internal/wire"
)

const (
	// refusedRetry is the first wait after the target refused an object.
	refusedRetry = 500 * time.Millisecond
	// dependencyRetry is how often an object looks whether its namespace has been tried.
	dependencyRetry = 50 * time.Millisecond
	// maxSteps bounds how often one turn decides again because the object was not as
	// it was thought to be.
	maxSteps = 4
)

// Errors of the agent itself.
var (
	// errLook asks for a look at whose object is at the target.
	errLook = errors.New("look again")
	// errDependency says that the object's namespace is desired and must be tried first.
	errDependency = errors.New("wait for the namespace")
)

// reconciler carries out what decide says, one identity at a time. All workers share it.
type reconciler struct {
	store   *store.Store
	engine  *engine
	target  *target.Client
	log     *slog.Logger
	changed func() // is called when there are reports to send
	// proven says that the desired content is known to be the hub's.
	proven  func() bool
	prover  *hub.Prover
	metrics *metrics
	insists insistence

	slots      slots
	namespaces *namespaces
	writer     *writer
	remover    *remover
	refusals   refusals
}

// work reconciles items, at the target's pace, until ctx ends.
func (r *reconciler) work(ctx context.Context) {
	for r.target.Pace.Acquire(ctx) {
		if it, ok := r.engine.next(ctx); ok {
			r.target.Pace.Begin(ctx)
			r.reconcile(ctx, it)
			r.target.Pace.End()
		}
		r.target.Pace.Release()
	}
}

// turn is what a worker knows of one identity while it works on it.
type turn struct {
	id      key.Identity
	view    view
	wants   []spaceWant
	winner  int // index in wants; -1: no space desires it
	guarded bool
	settled bool
	// mark is the place of the last wire mark, delivered has the places at which the
	// entries arrived.
	mark      marks.Pair
	delivered []marks.Pair
	record    *store.Record
	status    []byte
	// completed is how the desired Job or Pod ran to its end; empty: it has not.
	completed string
	// judged says that the object needs no proof, even if the change failed.
	judged bool
	before map[key.Space]*wire.Report
}

// outcome is what a turn leaves to write.
type outcome struct {
	decision
	record  *store.Record
	changed bool // the record has changed
	forget  bool // nothing is left at the target
	letGo   bool // the recorded object is no longer ours
	claim   bool // the record is of a stray: its removal is counted
	waits   bool // with claim: its removal waited for a confirmation before the store was lost
	keep    bool // the last report stays
	slotted bool // the retry is the object's slot
	seen    *observed
	failed  bool
	drifted bool
	held    bool // it waits for others to be removed first
	hurried bool // the object no longer waits for its Pods
}

// reconcile gives an item one turn. The engine gets it back when the outcome is in the
// store.
func (r *reconciler) reconcile(ctx context.Context, it *item) {
	t, err := r.read(it)
	if err != nil {
		r.log.Error("the store cannot be read", "object", it.id, "error", err)
		r.engine.finish(it, result{wanted: it.wanted, state: t.view.state, failed: true, retry: store.Retry, leaving: !it.wanted, space: it.home()})
		return
	}
	o := r.act(ctx, t)
	r.settle(ctx, t, &o)
	if o.seen != nil && o.seen.presence == present {
		r.engine.saw(it, t.view.as, *o.seen)
	}
	reports, gone := t.reports(o, time.Now())
	res := result{
		seen: o.seen, as: t.view.as, gone: gone, wanted: t.winner >= 0, forget: o.forget, state: t.view.state,
		retry: o.retry, failed: o.failed, drifted: o.drifted, slotted: o.slotted, proof: o.proof, judged: t.judged,
		leaving: t.leaves(o), held: o.held, hurried: o.hurried, space: t.object().Space,
	}
	if !o.keep {
		res.state = o.decision.state
	}
	if len(reports) == 0 && !o.changed && !o.forget && !o.letGo {
		r.engine.finish(it, res)
		return
	}
	if err := r.store.Submit(ctx, &store.Commit{
		Do: func(x *store.Tx) error { return o.write(x, it.id, reports, time.Now()) },
		Done: func() {
			r.engine.finish(it, res)
			if len(reports) > 0 {
				r.changed()
			}
		},
		Failed: func(error) { r.unwritten(it, t, o) },
		Urgent: completes(reports),
	}); err != nil {
		r.engine.finish(it, res) // the agent stops; the next start finds again what was not written
	}
}

// completes says whether a report has a Job or Pod as completed. If that were lost, it
// would run again.
func completes(reports map[string]*wire.Report) bool {
	for _, report := range reports {
		if report != nil && report.Completed != "" {
			return true
		}
	}
	return false
}

// unwritten returns an item to the engine whose outcome the store could not take. The
// engine still learns what was observed, so that drift goes on being repaired; a retry
// finds the rest again.
func (r *reconciler) unwritten(it *item, t *turn, o outcome) {
	r.engine.finish(it, result{
		seen: o.seen, as: t.view.as, wanted: t.winner >= 0, state: t.view.state, failed: true, leaving: t.leaves(o), hurried: o.hurried, space: t.object().Space,
		retry: max(o.retry, retry.Backoff(t.view.failures, store.Retry, maxRetry)),
	})
}

// read collects what the engine and the store know of an item.
func (r *reconciler) read(it *item) (*turn, error) {
	t := &turn{id: parseIdentity(it.id), view: r.engine.view(it), before: map[key.Space]*wire.Report{}}
	err := r.store.View(func(x *store.Tx) error {
		var err error
		if t.record, err = x.Record(it.id); err != nil {
			return err
		}
		for _, s := range t.view.spaces {
			path := key.Object{Space: s, Identity: t.id}.Path()
			w, _, err := x.Want(path)
			if err != nil {
				return err
			}
			if w != nil {
				t.deliver(w, x.Meta())
			}
			t.wants = append(t.wants, spaceWant{space: s, want: w})
			if t.before[s], err = x.Report(path); err != nil {
				return err
			}
		}
		t.guarded = x.Guarded(it.id)
		t.mark = marks.NewPair(x.Meta().Marker, x.Meta().Revision)
		t.settled = x.Meta().Revision > 0 && !x.Meta().Fresh && x.Meta().Deferred == 0 && r.proven()
		t.status = x.Status(it.id)
		return nil
	})
	t.winner = choose(t.wants, t.record)
	if t.record != nil && t.view.at.Version == "" {
		t.view.at.Version, t.view.kind = t.record.Version, t.record.Kind
	}
	if w := t.want(); w != nil && w.Version != "" {
		t.view.at.Version, t.view.kind = w.Version, w.ObjectKind
	}
	return t, err
}

// want is the entry to follow; nil if no space desires the object.
func (t *turn) want() *store.Want {
	if t.winner < 0 {
		return nil
	}
	return t.wants[t.winner].want
}

// object is the source object: the winner's, or else the one that was applied.
func (t *turn) object() key.Object {
	o := key.Object{Identity: t.id}
	switch {
	case t.winner >= 0:
		o.Space = t.wants[t.winner].space
	case t.record != nil:
		o.Space = t.record.Space
	case len(t.view.spaces) > 0:
		o.Space = t.view.spaces[0]
	}
	return o
}

// act decides and does, until there is nothing more to do in this turn.
func (r *reconciler) act(ctx context.Context, t *turn) outcome {
	f := facts{
		space: t.object().Space, want: t.want(), record: t.record, seen: t.view.seen,
		guarded: t.guarded, settled: t.settled, pods: ownsPods(t.id.Resource), overdue: t.view.overdue && ownsPods(t.id.Resource),
	}
	if t.record != nil {
		f.former = t.record.As != "" && t.record.As != t.view.as
		f.again = r.insists.wait(t.record.Mutated, t.id.String(), time.Now())
	}
	f.completed, f.reported = t.ended()
	f.lingers = t.lingers(time.Now())
	t.completed = f.completed
	if t.traced() {
		var err error
		if f.traced, err = r.trace(ctx, t); err != nil {
			return r.refusals.of(t, err)
		}
	}
	if t.winner < 0 && t.record == nil && t.view.at.Version != "" {
		f.traced = true // the list shows what was made right before the agent was killed
	}
	for range maxSteps {
		f.proof = r.prove(t, f.seen)
		d := decide(f)
		t.judged = d.do != doNothing && d.do != doLook
		o, err := r.step(ctx, t, f, d)
		switch {
		case err == nil:
			return t.unobserved(t.contested(o))
		case errors.Is(err, errLook), target.PreconditionFailed(err):
			t.judged = false
			if f.seen, err = r.look(ctx, t); err != nil {
				return r.refusals.of(t, err)
			}
			f.looked = true
		case target.MissingNamespace(err, t.id):
			r.namespaces.forget(t.id.Namespace)
		case d.again && target.Immutable(err):
			return r.remains(t)
		case d.do == doApply && d.uid != "" && !d.adopt && target.Immutable(err) && t.mutatedBefore():
			return r.regains(ctx, t, d)
		case d.do == doApply && d.uid != "" && target.Immutable(err):
			return r.recreate(ctx, t, d, err)
		default:
			return r.refusals.of(t, err)
		}
	}
	return r.refusals.of(t, errors.New("the object at the location changes faster than it can be looked at"))
}

// step does what was decided. It returns errLook, or a failed precondition, if the
// object is not as it was thought to be.
func (r *reconciler) step(ctx context.Context, t *turn, f facts, d decision) (outcome, error) {
	if d.drift && t.view.calm > 0 {
		return outcome{decision: decision{retry: t.view.calm}, record: t.record, keep: true}, nil
	}
	switch d.do {
	case doApply:
		return r.apply(ctx, t, f, d)
	case doNote:
		return t.note(f, d), nil
	case doMark:
		return r.mark(ctx, t, d)
	case doInspect:
		return r.inspect(ctx, t, f, d)
	case doRefresh:
		return r.refresh(ctx, t, f, d)
	case doRemove:
		if o, waits, err := r.remover.inOrder(ctx, t); waits || err != nil {
			return o, err
		}
		return r.remover.remove(ctx, t, d)
	case doHurry:
		return r.remover.hurry(ctx, t, d)
	case doLetGo:
		return r.remover.letGo(ctx, t, d)
	case doVerifyKind:
		return r.remover.verifyKind(ctx, t)
	case doClaim:
		return r.claim(ctx, t)
	case doLook:
		return outcome{}, errLook
	case doForget:
		return outcome{forget: true}, nil
	default:
		o := outcome{decision: d, record: t.record, keep: d.state == "" || d.proof == marks.Missing && t.guardedBefore()}
		if f.seen != t.view.seen {
			o.seen = &f.seen
			if f.seen.presence == foreign || f.seen.unmarked && f.seen.terminating { // the watch does not show it
				o.seen = &observed{presence: absent, taken: true, revision: t.view.seen.revision}
			}
		}
		return o, nil
	}
}

// reports returns the reports that the outcome changes, by path; nil removes one. gone
// are the spaces that have neither an entry nor a report of the identity any more.
func (t *turn) reports(o outcome, now time.Time) (reports map[string]*wire.Report, gone []key.Space) {
	reports = map[string]*wire.Report{}
	o.completed = t.completed
	owner := t.object().Space
	for i, w := range t.wants {
		path, before := key.Object{Space: w.space, Identity: t.id}.Path(), t.before[w.space]
		var report wire.Report
		switch {
		case i == t.winner && o.keep, t.winner < 0 && w.space == owner && !o.forget && o.keep:
			continue
		case i == t.winner, t.winner < 0 && w.space == owner && !o.forget:
			report = compose(w.want, o.record, o.decision, t.status, before, now)
		case w.want != nil:
			report = compose(w.want, nil, loses(w.want, key.Object{Space: owner, Identity: t.id}), nil, before, now)
		default:
			gone = append(gone, w.space)
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

// loses is the decision about an entry that is not the one to follow.
func loses(w *store.Want, winner key.Object) decision {
	owner := winner.Path()
	if w.Kind == store.WantConflict {
		owner = w.Note
	}
	return decision{state: wire.InConflict, reason: v1alpha1.ReasonOtherSpace, message: wire.OtherSpace(owner)}
}

// write puts the outcome into the store.
func (o *outcome) write(x *store.Tx, id string, reports map[string]*wire.Report, now time.Time) error {
	var err error
	switch {
	case o.forget:
		err = x.Forget(id)
	case o.letGo:
		err = x.LetGo(id)
	case o.claim:
		err = x.Claim(id, o.record, o.waits, now)
	case o.changed:
		err = x.Keep(id, o.record)
	}
	if err != nil {
		return err
	}
	for path, r := range reports {
		if err := x.SetReport(path, r); err != nil {
			return err
		}
	}
	return nil
}
