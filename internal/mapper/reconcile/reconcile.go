package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/engine"
	"orrery.dev/orrery/internal/mapper/hub"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/observe"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/mapper/target"
	"orrery.dev/orrery/internal/wire"
)

const (
	// refusedRetry is the first wait after the target refused an object.
	refusedRetry = 500 * time.Millisecond
	// maxRetry is the longest wait between attempts that the target refuses.
	maxRetry = time.Minute
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

// Reconciler carries out what decide says, one identity at a time. All workers share it.
type Reconciler struct {
	Parts
	insists decide.Insistence

	slots      slots
	namespaces *namespaces
	writer     *writer
	remover    *remover
	refusals   refusals
}

// Parts are what a reconciler works with.
type Parts struct {
	Store  *store.Store
	Engine *engine.Engine
	Target *target.Client
	Gate   *observe.Gate
	// State says whether the desired content is known to be the hub's, prover which places
	// are of the hub's log, and reporter is told that there are reports to send.
	State    *hub.State
	Prover   *hub.Prover
	Reporter *hub.Reporter
	// Repairs counts repairs of drift, contested those of contested objects.
	Repairs, Contested prometheus.Counter
	// MutatedRetry is how long to wait before what admission has changed is applied again,
	// the first time. Zero: a default.
	MutatedRetry time.Duration
	Log          *slog.Logger
}

// New makes a reconciler of parts.
func New(p Parts) *Reconciler {
	writer := &writer{store: p.Store, target: p.Target}
	refusals := refusals{gate: p.Gate}
	return &Reconciler{
		Parts:      p,
		insists:    decide.Insistence{First: cmp.Or(p.MutatedRetry, decide.FirstMutatedRetry), Started: time.Now()},
		namespaces: newNamespaces(p.Target, p.Engine), writer: writer, refusals: refusals,
		remover: &remover{
			engine: p.Engine, target: p.Target, users: &users{engine: p.Engine, target: p.Target},
			writer: writer, refusals: refusals, log: p.Log,
		},
	}
}

// Work reconciles items, at the target's pace, until ctx ends.
func (r *Reconciler) Work(ctx context.Context) {
	for r.Target.Pace.Acquire(ctx) {
		if it, ok := r.Engine.Next(ctx); ok {
			r.Target.Pace.Begin(ctx)
			r.reconcile(ctx, it)
			r.Target.Pace.End()
		}
		r.Target.Pace.Release()
	}
}

// turn is what a worker knows of one identity while it works on it.
type turn struct {
	id      key.Identity
	view    engine.View
	wants   []decide.Entry
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
	decide.Decision
	record  *store.Record
	changed bool // the record has changed
	forget  bool // nothing is left at the target
	letGo   bool // the recorded object is no longer ours
	claim   bool // the record is of a stray: its removal is counted
	waits   bool // with claim: its removal waited for a confirmation before the store was lost
	keep    bool // the last report stays
	slotted bool // the retry is the object's slot
	seen    *decide.Observed
	failed  bool
	drifted bool
	held    bool // it waits for others to be removed first
	hurried bool // the object no longer waits for its Pods
}

// reconcile gives an item one turn. The engine gets it back when the outcome is in the
// store.
func (r *Reconciler) reconcile(ctx context.Context, it *engine.Item) {
	t, err := r.read(it)
	if err != nil {
		r.Log.Error("the store cannot be read", "object", it.ID, "error", err)
		r.Engine.Finish(it, t.view.Unread())
		return
	}
	o := r.act(ctx, t)
	r.settle(ctx, t, &o)
	if o.seen != nil && o.seen.Presence == decide.Present {
		r.Engine.Saw(it, t.view.As, *o.seen)
	}
	reports, gone := t.reports(o, time.Now())
	res := engine.Result{
		Seen: o.seen, As: t.view.As, Gone: gone, Wanted: t.winner >= 0, Forget: o.forget, State: t.view.State,
		Retry: o.Retry, Failed: o.failed, Drifted: o.drifted, Slotted: o.slotted, Proof: o.Proof, Judged: t.judged,
		Leaving: t.leaves(o), Held: o.held, Hurried: o.hurried, Space: t.object().Space,
	}
	if !o.keep {
		res.State = o.Decision.State
	}
	if len(reports) == 0 && !o.changed && !o.forget && !o.letGo {
		r.Engine.Finish(it, res)
		return
	}
	if err := r.Store.Submit(ctx, &store.Commit{
		Do: func(x *store.Tx) error { return o.write(x, it.ID, reports, time.Now()) },
		Done: func() {
			r.Engine.Finish(it, res)
			if len(reports) > 0 {
				r.Reporter.Changed()
			}
		},
		Failed: func(error) { r.unwritten(it, t, o) },
		Urgent: completes(reports),
	}); err != nil {
		r.Engine.Finish(it, res) // the agent stops; the next start finds again what was not written
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
func (r *Reconciler) unwritten(it *engine.Item, t *turn, o outcome) {
	r.Engine.Finish(it, engine.Result{
		Seen: o.seen, As: t.view.As, Wanted: t.winner >= 0, State: t.view.State, Failed: true, Leaving: t.leaves(o), Hurried: o.hurried, Space: t.object().Space,
		Retry: max(o.Retry, retry.Backoff(t.view.Failures, store.Retry, maxRetry)),
	})
}

// read collects what the engine and the store know of an item.
func (r *Reconciler) read(it *engine.Item) (*turn, error) {
	t := &turn{id: it.Identity(), view: r.Engine.View(it), before: map[key.Space]*wire.Report{}}
	err := r.Store.View(func(x *store.Tx) error {
		var err error
		if t.record, err = x.Record(it.ID); err != nil {
			return err
		}
		for _, s := range t.view.Spaces {
			path := key.Object{Space: s, Identity: t.id}.Path()
			w, _, err := x.Want(path)
			if err != nil {
				return err
			}
			if w != nil {
				t.deliver(w, x.Meta())
			}
			t.wants = append(t.wants, decide.Entry{Space: s, Want: w})
			if t.before[s], err = x.Report(path); err != nil {
				return err
			}
		}
		t.guarded = x.Guarded(it.ID)
		t.mark = marks.NewPair(x.Meta().Marker, x.Meta().Revision)
		t.settled = x.Meta().Revision > 0 && !x.Meta().Fresh && x.Meta().Deferred == 0 && r.State.Proves()
		t.status = x.Status(it.ID)
		return nil
	})
	t.winner = decide.Choose(t.wants, t.record)
	if t.record != nil && t.view.At.Version == "" {
		t.view.At.Version, t.view.Kind = t.record.Version, t.record.Kind
	}
	if w := t.want(); w != nil && w.Version != "" {
		t.view.At.Version, t.view.Kind = w.Version, w.ObjectKind
	}
	return t, err
}

// want is the entry to follow; nil if no space desires the object.
func (t *turn) want() *store.Want {
	if t.winner < 0 {
		return nil
	}
	return t.wants[t.winner].Want
}

// object is the source object: the winner's, or else the one that was applied.
func (t *turn) object() key.Object {
	o := key.Object{Identity: t.id}
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

// act decides and does, until there is nothing more to do in this turn.
func (r *Reconciler) act(ctx context.Context, t *turn) outcome {
	f := decide.Facts{
		Space: t.object().Space, Want: t.want(), Record: t.record, Seen: t.view.Seen,
		Guarded: t.guarded, Settled: t.settled, Pods: decide.OwnsPods(t.id.Resource), Overdue: t.view.Overdue && decide.OwnsPods(t.id.Resource),
	}
	if t.record != nil {
		f.Former = t.record.As != "" && t.record.As != t.view.As
		f.Again = r.insists.Wait(t.record.Mutated, t.id.String(), time.Now())
	}
	f.Completed, f.Reported = t.ended()
	f.Lingers = t.lingers(time.Now())
	t.completed = f.Completed
	if t.traced() {
		var err error
		if f.Traced, err = r.trace(ctx, t); err != nil {
			return r.refusals.of(t, err)
		}
	}
	if t.winner < 0 && t.record == nil && t.view.At.Version != "" {
		f.Traced = true // the list shows what was made right before the agent was killed
	}
	for range maxSteps {
		f.Proof = r.prove(t, f.Seen)
		d := decide.On(f)
		t.judged = d.Do != decide.DoNothing && d.Do != decide.DoLook
		o, err := r.step(ctx, t, f, d)
		switch {
		case err == nil:
			return t.unobserved(t.contested(o))
		case errors.Is(err, errLook), target.PreconditionFailed(err):
			t.judged = false
			if f.Seen, err = r.look(ctx, t); err != nil {
				return r.refusals.of(t, err)
			}
			f.Looked = true
		case target.MissingNamespace(err, t.id):
			r.namespaces.forget(t.id.Namespace)
		case d.Again && target.Immutable(err):
			return r.remains(t)
		case d.Do == decide.DoApply && d.UID != "" && !d.Adopt && target.Immutable(err) && t.mutatedBefore():
			return r.regains(ctx, t, d)
		case d.Do == decide.DoApply && d.UID != "" && target.Immutable(err):
			return r.recreate(ctx, t, d, err)
		default:
			return r.refusals.of(t, err)
		}
	}
	return r.refusals.of(t, errors.New("the object at the location changes faster than it can be looked at"))
}

// step does what was decided. It returns errLook, or a failed precondition, if the
// object is not as it was thought to be.
func (r *Reconciler) step(ctx context.Context, t *turn, f decide.Facts, d decide.Decision) (outcome, error) {
	if d.Drift && t.view.Calm > 0 {
		return outcome{Decision: decide.Decision{Retry: t.view.Calm}, record: t.record, keep: true}, nil
	}
	switch d.Do {
	case decide.DoApply:
		return r.apply(ctx, t, f, d)
	case decide.DoNote:
		return t.note(f, d), nil
	case decide.DoMark:
		return r.mark(ctx, t, d)
	case decide.DoInspect:
		return r.inspect(ctx, t, f, d)
	case decide.DoRefresh:
		return r.refresh(ctx, t, f, d)
	case decide.DoRemove:
		if o, waits, err := r.remover.inOrder(ctx, t); waits || err != nil {
			return o, err
		}
		return r.remover.remove(ctx, t, d)
	case decide.DoHurry:
		return r.remover.hurry(ctx, t, d)
	case decide.DoLetGo:
		return r.remover.letGo(ctx, t, d)
	case decide.DoVerifyKind:
		return r.remover.verifyKind(ctx, t)
	case decide.DoClaim:
		return r.claim(ctx, t)
	case decide.DoLook:
		return outcome{}, errLook
	case decide.DoForget:
		return outcome{forget: true}, nil
	default:
		o := outcome{Decision: d, record: t.record, keep: d.State == "" || d.Proof == marks.Missing && t.guardedBefore()}
		if f.Seen != t.view.Seen {
			o.seen = &f.Seen
			if f.Seen.Presence == decide.Foreign || f.Seen.Unmarked && f.Seen.Terminating { // the watch does not show it
				o.seen = &decide.Observed{Presence: decide.Absent, Taken: true, Revision: t.view.Seen.Revision}
			}
		}
		return o, nil
	}
}

// reports returns the reports that the outcome changes, by path; nil removes one. gone
// are the spaces that have neither an entry nor a report of the identity any more.
func (t *turn) reports(o outcome, now time.Time) (reports map[string]*wire.Report, gone []key.Space) {
	reports = map[string]*wire.Report{}
	o.Completed = t.completed
	owner := t.object().Space
	for i, w := range t.wants {
		path, before := key.Object{Space: w.Space, Identity: t.id}.Path(), t.before[w.Space]
		var report wire.Report
		switch {
		case i == t.winner && o.keep, t.winner < 0 && w.Space == owner && !o.forget && o.keep:
			continue
		case i == t.winner, t.winner < 0 && w.Space == owner && !o.forget:
			report = decide.Compose(w.Want, o.record, o.Decision, t.status, before, now)
		case w.Want != nil:
			report = decide.Compose(w.Want, nil, decide.Loses(w.Want, key.Object{Space: owner, Identity: t.id}), nil, before, now)
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

// ended is how the desired Job or Pod ran to its end, as observed or by its last report,
// which is where that is kept; empty: it did not. reported says that the last report is
// of exactly what is desired.
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
