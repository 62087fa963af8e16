package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/immutable"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/observe"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Reconciler carries out decisions, one identity at a time. All workers share it.
type Reconciler struct {
	Config
	insists decide.Insistence

	slots      slots
	namespaces *namespaces
	writer     *writer
	remover    *remover
	recreator  *recreator
	refusals   refusals
	readings   readings
}

// Config has the dependencies and settings of a Reconciler.
type Config struct {
	Store  *store.Store
	Engine *worklist.Worklist
	Target *kubeclient.Client
	Gate   *observe.Gate
	// State shows whether the desired content is known to be the hub's, Prover which log positions
	// are of the hub's log. Reporter is notified of reports to send.
	State    *hubclient.State
	Prover   *hubclient.Prover
	Reporter *hubclient.Reporter
	// Namespaces finds out which Namespaces other shards have; nil: the agent has the whole location.
	Namespaces *hubclient.Namespaces
	// Repairs counts repairs of drift, Contested those of contested objects.
	Repairs, Contested prometheus.Counter
	// MutatedRetry is how long to wait before what admission has changed is applied again,
	// the first time. Zero: a default.
	MutatedRetry time.Duration
	Log          *slog.Logger
}

// New returns a Reconciler.
func New(p Config) *Reconciler {
	writer := &writer{store: p.Store, target: p.Target}
	refusals := refusals{gate: p.Gate}
	remover := &remover{
		engine: p.Engine, target: p.Target, users: &users{engine: p.Engine, target: p.Target, store: p.Store},
		writer: writer, refusals: refusals, log: p.Log,
	}
	return &Reconciler{
		Config:     p,
		insists:    decide.Insistence{First: cmp.Or(p.MutatedRetry, decide.FirstMutatedRetry), Started: time.Now()},
		namespaces: newNamespaces(p.Target, p.Engine, p.Namespaces), writer: writer, refusals: refusals,
		readings:  readings{all: map[string]reading{}},
		remover:   remover,
		recreator: &recreator{target: p.Target, remover: remover, writer: writer, refusals: refusals, log: p.Log},
	}
}

// Work reconciles items, at the target's pace, until ctx ends.
func (r *Reconciler) Work(ctx context.Context) {
	for r.Target.Limiter.Acquire(ctx) {
		if it, ok := r.Engine.Next(ctx); ok {
			r.reconcile(r.Target.Limiter.Begin(ctx, r.Engine.Ready()), it)
		}
		r.Target.Limiter.Release()
	}
}

// reconcile gives an item one turn. The engine gets it back when the outcome is in the
// store.
func (r *Reconciler) reconcile(ctx context.Context, it *worklist.Item) {
	t, err := r.read(it)
	if err != nil {
		r.Log.Error("the store cannot be read", "object", it.ID, "error", err)
		r.Engine.Finish(it, t.view.Unread())
		return
	}
	acting := kubeclient.ReadOnly(kubeclient.As(ctx, t.account()), func() bool { return t.view.Halt != "" || r.Gate.Halted() != "" })
	o := r.act(acting, t)
	if t.view.Halt == "" {
		r.writePair(acting, t, &o)
	}
	o = r.permitted(acting, t, o)
	if o.seen != nil && o.seen.Existence == decide.Present {
		r.Engine.Saw(it, &t.view, *o.seen)
	}
	end := concluded{t, o}
	reports, gone := end.reports(time.Now())
	res := worklist.Result{
		Seen: o.seen, As: t.view.As, History: t.view.History, Gone: gone, Wanted: t.winner >= 0, Forget: o.forget, State: t.view.State,
		Retry: o.Retry, Failed: o.failed, Drifted: o.drifted, Slotted: o.slotted, Proof: o.Proof, ProofKnown: t.proven,
		Leaving: end.leaves(), Held: o.held, Hurried: o.hurried, Space: t.object().Space,
		Withheld: o.Withheld, Homeless: o.homeless, Untried: o.untried, Outdated: o.outdated,
	}
	switch {
	case o.forget && !o.again && t.confirms():
		res.State = wire.Removed
	case !o.keep:
		res.State = o.Decision.State
	}
	if len(reports) == 0 && !o.changed && !o.forget && !o.letGo && !o.recreates {
		r.Engine.Finish(it, res)
		return
	}
	if err := r.Store.Submit(ctx, &store.Commit{
		Do: func(x *store.Tx) error {
			if t.outlived = !x.Meta().Cluster.Replaced.Equal(t.replaced); t.outlived { // by another cluster
				return nil
			}
			return o.write(x, it.ID, t, reports, time.Now())
		},
		Done: func() {
			if t.outlived {
				r.unwritten(it, t, o)
				return
			}
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

// completes reports whether a report has a Job or Pod as completed. If that were lost, it
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
func (r *Reconciler) unwritten(it *worklist.Item, t *turn, o outcome) {
	r.Engine.Finish(it, worklist.Result{
		Seen: o.seen, As: t.view.As, History: t.view.History, Wanted: t.winner >= 0, State: t.view.State, Failed: true, Leaving: concluded{t, o}.leaves(), Hurried: o.hurried, Space: t.object().Space,
		Retry: max(o.Retry, retry.Backoff(t.view.Failures, store.Retry, maxRetry)),
	})
}

// read collects what the engine and the store know of an item.
func (r *Reconciler) read(it *worklist.Item) (*turn, error) {
	t := &turn{id: it.Identity(), view: r.Engine.View(it), before: map[key.Space]*wire.Report{}}
	err := r.Store.View(func(x *store.Tx) error {
		var err error
		if t.record, err = x.Records.Get(it.ID); err != nil {
			return err
		}
		for _, s := range t.view.Spaces {
			path := t.sourceIn(s).Path()
			w, _, err := x.Desired.Get(path)
			if err != nil {
				return err
			}
			if w != nil {
				t.deliver(w, x.Meta())
			}
			if t.wants = append(t.wants, decide.Entry{Space: s, Want: w}); w.Yields() {
				t.wants[len(t.wants)-1] = decide.Entry{Space: s, Yields: true}
			}
			if t.before[s], err = x.Reports.Get(path); err != nil {
				return err
			}
		}
		t.guarded, t.placing, t.shard, t.replaced = x.Removals.IsPending(it.ID), x.Meta().Placing, x.Meta().Shard, x.Meta().Cluster.Replaced
		t.aggregated = x.Meta().IsAggregated(t.id.Resource)
		t.mark = ownership.NewPair(x.Meta().Marker, x.Meta().Revision)
		t.complete = x.Meta().Revision > 0 && !x.Meta().Fresh && !x.Meta().Gained && x.Meta().Deferred == 0 && r.State.Proves()
		t.formers = x.Meta().Formers()
		t.live, err = x.Observed.Get(it.ID)
		return err
	})
	if t.winner = decide.Choose(t.wants, t.record); t.yieldsToShard() {
		t.winner = -1
	}
	if t.live != nil && t.live.Diagnosis != nil && t.live.Diagnosis.Account != t.account() { // read with rights that no longer count
		t.live.Diagnosis = nil
	}
	if t.record != nil && t.view.Place.Version == "" {
		t.view.Place.Version, t.view.Kind = t.record.Version, t.record.Kind
	}
	if w := t.want(); w != nil && w.Version != "" {
		t.view.Place.Version, t.view.Kind = w.Version, w.ObjectKind
	}
	return t, err
}

// act decides and does, until there is nothing more to do in this turn.
func (r *Reconciler) act(ctx context.Context, t *turn) outcome {
	f := decide.Facts{
		Space: t.object().Space, Want: t.want(), Record: t.record, Seen: t.view.Seen,
		Guarded: t.guarded, Provided: decide.IsProvided(t.id), Yields: t.yields(t.object().Space),
		Confirms: t.confirms() || t.announced(), DesiredComplete: t.complete, Pods: decide.OwnsPods(t.id.Resource), Overdue: t.view.Overdue && decide.OwnsPods(t.id.Resource),
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
			return r.refusals.outcome(t, err)
		}
		if f.Remembered = t.aggregated; f.Remembered && !f.Traced {
			return haltedOutcome(t, f, outcome{Decision: decide.Away()})
		}
	}
	if t.winner < 0 && t.record == nil && t.view.Place.Version != "" {
		f.Traced = true // the list shows what was made right before the agent was killed
	}
	unsettled := errUnsettled
	for range maxSteps {
		f.Proof = r.prove(t, f.Seen)
		d := decide.Decide(f)
		if t.view.Halt != "" {
			d = decide.Halted(f, d, t.before[t.object().Space], t.view.Halt)
		}
		t.proven = d.Do != decide.DoNothing && d.Do != decide.DoLook
		o, err := r.step(ctx, t, f, d)
		switch {
		case err == nil:
			return namesOwner(t, concluded{t, o}.qualified())
		case errors.Is(err, kubeclient.ErrReadOnly):
			return haltedBy(r.Gate, t, f)
		case errors.Is(err, errLook), kubeclient.PreconditionFailed(err):
			if t.proven = false; !errors.Is(err, errLook) {
				unsettled = errors.Join(errUnsettled, err)
			}
			f.Seen, err = r.readObserved(ctx, t)
			switch {
			case errors.Is(err, kubeclient.ErrReadOnly):
				return haltedBy(r.Gate, t, f)
			case err != nil:
				return r.refusals.outcome(t, err)
			}
			f.Inspected = true
		case kubeclient.MissingNamespace(err, t.id) && !t.homeless:
			r.namespaces.forget(t.id.Namespace)
			unsettled = err // perhaps the agent may not create it
		case d.Again && immutable.Refused(kubeclient.StatusOf(err)):
			return r.remains(t)
		case d.Do == decide.DoApply && d.UID != "" && !d.Adopt && immutable.Refused(kubeclient.StatusOf(err)) && t.mutatedBefore():
			return r.regains(ctx, t, d)
		case d.Do == decide.DoApply && d.UID != "" && immutable.Refused(kubeclient.StatusOf(err)):
			return r.recreator.refused(ctx, t, d, err)
		default:
			return r.refusals.outcome(t, err)
		}
	}
	return r.refusals.outcome(t, unsettled)
}

// haltedOutcome adapts the outcome of a removal whose resource is not served, if the agent is halted: its report
// shows the halt.
func haltedOutcome(t *turn, f decide.Facts, o outcome) outcome {
	if t.view.Halt == "" || o.forget {
		return o
	}
	o.Decision = decide.Halted(f, o.Decision, t.before[t.object().Space], t.view.Halt)
	o.held = o.Withheld
	return o
}

// haltedBy is the outcome of a turn if its change was not sent, since the agent is halted.
func haltedBy(gate *observe.Gate, t *turn, f decide.Facts) outcome {
	why := cmp.Or(t.view.Halt, gate.Halted(), "the agent was halted")
	return outcome{
		record: t.record, held: t.winner < 0,
		Decision: decide.Halted(f, decide.Decision{Do: decide.DoMark}, t.before[t.object().Space], why),
	}
}

// step does what was decided. It returns errLook, or a failed precondition, if the
// object is not as it was thought to be.
func (r *Reconciler) step(ctx context.Context, t *turn, f decide.Facts, d decide.Decision) (outcome, error) {
	if (d.Drift || d.Do == decide.DoRefresh) && t.view.RepairDelay > 0 { // another writer changes the object, too
		return outcome{Decision: decide.Decision{Retry: t.view.RepairDelay}, record: t.record, keep: true}, nil
	}
	switch d.Do {
	case decide.DoApply:
		if o, done, err := r.recreator.supersede(ctx, t, d); done || err != nil {
			return o, err
		}
		return r.apply(ctx, t, f, d)
	case decide.DoNote:
		return t.recorded(f, d), nil
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
		return r.remover.removeNow(ctx, t, d)
	case decide.DoLetGo:
		return r.remover.letGo(ctx, t, d)
	case decide.DoVerifyKind:
		o, err := r.remover.verifyKind(ctx, t)
		return haltedOutcome(t, f, o), err
	case decide.DoClaim:
		return r.claim(ctx, t)
	case decide.DoInherit:
		return r.inherit(ctx, t, f)
	case decide.DoLook:
		return outcome{}, errLook
	case decide.DoForget:
		return outcome{forget: true}, nil
	default:
		o := outcome{Decision: d, record: t.record, held: d.Withheld && t.winner < 0, keep: d.State == "" || d.Proof == ownership.Missing && t.guardedBefore()}
		if f.Seen != t.view.Seen {
			o.seen = &f.Seen
			if f.Seen.Existence == decide.Foreign || f.Seen.Unmarked && f.Seen.Terminating { // the watch does not show it
				o.seen = &decide.Observed{Existence: decide.Absent, Taken: true, Revision: t.view.Seen.Revision}
			}
		}
		return o, nil
	}
}
