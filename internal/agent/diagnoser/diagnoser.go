package diagnoser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/diagnosis"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// timeout bounds the reads of one diagnosis.
	timeout = 15 * time.Second
	// The maximum numbers of objects that a diagnosis reads.
	maxReplicaSets, maxPending, maxPods = 50, 20, 100
	// maxEvents is the number of events on a page, and maxEventPages the maximum number of pages for one object. A list
	// shows events by name, the oldest first, and a client creates few for one object in the hour for which a cluster
	// keeps them.
	maxEvents, maxEventPages = 100, 5
)

// Diagnoser diagnoses unhealthy objects, one after the other. The spaces take turns.
type Diagnoser struct {
	store  *store.Store
	engine *worklist.Worklist
	target *kubeclient.Client
	log    *slog.Logger
	queue  queue
	wake   retry.Signal
	denied denied
}

// New returns a diagnoser that does nothing before Run.
func New(e *worklist.Worklist, s *store.Store, t *kubeclient.Client, log *slog.Logger) *Diagnoser {
	return &Diagnoser{
		store: s, engine: e, target: t, log: log,
		queue: newQueue(), wake: retry.NewSignal(), denied: denied{until: map[right]time.Time{}},
	}
}

// Observe adds an object that needs a diagnosis to the queue, or removes one that needs none.
func (d *Diagnoser) Observe(id string, place kubeclient.Place, l *store.Live) {
	if !l.IsSuspect || l.UID == "" {
		d.queue.remove(id)
		return
	}
	d.queue.set(subject{id: id, space: d.space(id), place: place, uid: l.UID, generation: l.Generation}, time.Now())
	d.wake.Raise()
}

// space returns the space whose turn the diagnosis of an object takes; empty if the worklist does not have the object.
func (d *Diagnoser) space(id string) key.Space {
	_, spaces, _ := d.sources(id)
	if len(spaces) == 0 {
		return ""
	}
	return spaces[0]
}

// Run diagnoses objects until ctx ends.
func (d *Diagnoser) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s, wait, ok := d.queue.next(time.Now())
		switch {
		case !ok:
			select {
			case <-d.wake:
			case <-ctx.Done():
			}
		case wait > 0:
			d.sleep(ctx, wait)
		default:
			d.diagnose(ctx, s)
			retry.Pause(ctx, pause)
		}
	}
}

// sleep waits until an entry of the queue is due, or the queue changes.
func (d *Diagnoser) sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
	case <-ctx.Done():
	}
}

// errChanged is returned for an object that is not as it was observed: its next observation counts.
var errChanged = errors.New("the object has changed since it was observed")

// errReleased is returned for an object that is not ours any more.
var errReleased = errors.New("the object is no longer managed")

// diagnose diagnoses an object and stores the result. After an error the last diagnosis stays.
func (d *Diagnoser) diagnose(ctx context.Context, s subject) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	account, err := d.account(s.id)
	var e *diagnosis.Evidence
	if err == nil {
		e, err = (&reading{Diagnoser: d, ctx: kubeclient.As(limited, account), account: account, subject: s}).evidence()
	}
	switch {
	case err == nil:
		d.queue.done(s, time.Now())
		d.put(ctx, s, account, e)
	case errors.Is(err, errChanged):
		d.queue.done(s, time.Now())
	case errors.Is(err, errReleased):
		d.queue.removeSubject(s)
		d.engine.ForgetLive([]string{s.id}) // if it becomes ours again, the next observation shows it
	case apierrors.IsNotFound(err):
		d.queue.remove(s.id)
	default:
		d.queue.done(s, time.Now())
		d.log.Debug("an unhealthy object could not be diagnosed", "object", s.id, "error", err)
	}
}

// account returns the ServiceAccount that acts for an object now; empty for the agent itself. It returns errReleased if
// the object is neither desired nor recorded.
func (d *Diagnoser) account(id string) (account string, err error) {
	source, spaces, ok := d.sources(id)
	if !ok {
		return "", errReleased
	}
	err = d.store.View(func(t *store.Tx) error {
		account, err = accountIn(t, id, source, spaces)
		return err
	})
	return account, err
}

// sources returns the identity that an object has in its spaces, and these. ok is false if the worklist does not have
// the object, or has observed that it is gone or not ours.
func (d *Diagnoser) sources(id string) (source key.Identity, spaces []key.Space, ok bool) {
	identity, err := key.ParseIdentity(id)
	if err != nil {
		return source, nil, false
	}
	it, ok := d.engine.Find(identity)
	if !ok {
		return source, nil, false
	}
	v := d.engine.View(it)
	isGone := v.Seen.Existence == decide.Absent || v.Seen.Existence == decide.Foreign // also an object that another owner has taken
	return v.Source, v.Spaces, !isGone
}

// accountIn is account in a transaction. The record alone has the policy of the last apply, whose account may have
// lost its rights since.
func accountIn(t *store.Tx, id string, source key.Identity, spaces []key.Space) (string, error) {
	rec, err := t.Records.Get(id)
	if err != nil {
		return "", err
	}
	entries := make([]decide.Entry, 0, len(spaces))
	for _, space := range spaces {
		w, _, err := t.Desired.Get(key.Object{Space: space, Identity: source}.Path())
		if err != nil {
			return "", err
		}
		entries = append(entries, decide.Entry{Space: space, Want: w})
	}
	var want *store.Want
	if i := decide.Choose(entries, rec); i >= 0 {
		want = entries[i].Want
	}
	account, ok := decide.Account(want, rec)
	if !ok {
		return "", errReleased
	}
	return account, nil
}

// put stores the diagnosis that evidence has, and enqueues the object, if it is another one than before. It stores
// nothing if another account than the one that has read the evidence acts for the object by now.
func (d *Diagnoser) put(ctx context.Context, s subject, account string, e *diagnosis.Evidence) {
	source, spaces, ok := d.sources(s.id)
	if !ok {
		return
	}
	var old, now *store.Diagnosis
	isCurrent := false
	if err := d.store.View(func(t *store.Tx) (err error) {
		old, isCurrent, err = t.Observed.Diagnosis(s.id, s.uid, s.generation)
		return err
	}); err != nil || !isCurrent {
		return
	}
	if found, ok := diagnosis.Diagnose(e); ok {
		now = next(old, found, e.Object.Deadline(), e.Now)
		now.Account = account
	}
	if old == nil && now == nil || old != nil && now != nil && *old == *now {
		return
	}
	if err := d.store.Submit(ctx, &store.Commit{
		Do: func(t *store.Tx) error {
			acting, err := accountIn(t, s.id, source, spaces)
			if errors.Is(err, errReleased) || err == nil && acting != account {
				return nil
			}
			return errors.Join(err, t.Observed.Diagnose(s.id, s.uid, s.generation, now))
		},
		Done: func() { d.engine.Again([]string{s.id}) },
	}); err != nil {
		d.log.Debug("a diagnosis could not be stored", "object", s.id, "error", err)
	}
}

// next returns the diagnosis that follows another one. After the deadline (0: none) it is final.
func next(old *store.Diagnosis, found diagnosis.Diagnosis, deadline time.Duration, now time.Time) *store.Diagnosis {
	next := &store.Diagnosis{Text: found.Text, Subject: found.Subject, Since: now.UTC().Truncate(time.Second), Final: found.Final}
	if old != nil && old.Subject == found.Subject { // in a rollout that goes on, other Pods have the same problem
		next.Since = old.Since
	}
	if deadline > 0 && now.Sub(next.Since) >= deadline {
		next.Final = true
	}
	return next
}

// reading reads the evidence about one subject.
type reading struct {
	*Diagnoser
	subject
	ctx     context.Context //nolint:containedctx // a reading lasts for one call of evidence
	account string
}

// evidence reads the subject and what explains its health. What may not be read stays empty.
func (r *reading) evidence() (*diagnosis.Evidence, error) {
	id, err := key.ParseIdentity(r.id)
	if err != nil {
		return nil, err
	}
	answer, err := r.target.GetAll(r.ctx, r.place, id)
	if err != nil {
		return nil, err
	}
	object, err := diagnosis.ParseObject(r.place.Resource, answer.JSON)
	if err != nil {
		return nil, err
	}
	if string(object.Metadata.UID) != r.uid || object.Metadata.Generation != r.generation {
		return nil, errChanged
	}
	if observed := object.Status.ObservedGeneration; observed != 0 && observed < r.generation {
		return nil, errChanged // what it owns is of an earlier generation
	}
	e := &diagnosis.Evidence{Object: object, Now: time.Now()}
	switch r.place.Resource {
	case diagnosis.Pods:
		e.AddPod(answer.JSON)
	case diagnosis.Claims:
		e.AddClaim(answer.JSON)
	default:
		if err := r.pods(e, id.Namespace); err != nil {
			return nil, err
		}
	}
	for _, name := range diagnosis.MissingClaims(e) {
		if err := r.list(diagnosis.Claims, kubeclient.Selection{Namespace: id.Namespace, Fields: "metadata.name=" + name, Most: 1}, 1, e.AddClaim); err != nil {
			return nil, err
		}
	}
	for _, uid := range diagnosis.EventSubjects(e) {
		if err := r.list(diagnosis.Events, kubeclient.Selection{Namespace: id.Namespace, Fields: "involvedObject.uid=" + string(uid), Most: maxEvents}, maxEventPages, e.AddEvent); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// pods reads the Pods of the subject: first those that have not started, since there may be more than
// can be read.
func (r *reading) pods(e *diagnosis.Evidence, namespace string) error {
	labels := e.Object.Labels()
	if labels == "" {
		return nil
	}
	if r.place.Resource == diagnosis.Deployments {
		if err := r.list(diagnosis.ReplicaSets, kubeclient.Selection{Namespace: namespace, Labels: labels, Most: maxReplicaSets}, 1, e.AddReplicaSet); err != nil {
			return err
		}
	}
	for _, s := range []kubeclient.Selection{
		{Fields: "status.phase=Pending", Most: maxPending},
		{Fields: "status.phase!=Pending,status.phase!=Succeeded", Most: maxPods},
	} {
		s.Namespace, s.Labels = namespace, labels
		if err := r.list(diagnosis.Pods, s, 1, e.AddPod); err != nil {
			return err
		}
	}
	return nil
}

// places maps each resource that a diagnosis reads to a version that every cluster serves.
var places = map[key.Resource]string{diagnosis.Pods: "v1", diagnosis.Claims: "v1", diagnosis.Events: "v1", diagnosis.ReplicaSets: "v1"}

// list calls add with the objects on the first pages of a selection. It does nothing without the right to read them.
func (r *reading) list(resource key.Resource, s kubeclient.Selection, pages int, add func(text string)) error {
	needed := right{account: r.account, namespace: s.Namespace, resource: resource}
	if r.denied.is(needed, time.Now()) {
		return nil
	}
	for range pages {
		texts, more, err := kubeclient.ListSome(r.ctx, r.target, kubeclient.Place{Resource: resource, Version: places[resource]}, s)
		if apierrors.IsForbidden(err) {
			if r.denied.add(needed, time.Now()) {
				r.log.Warn("the agent may not read why objects are not healthy: grant the right, as orrery-agent rbac prints it",
					"verb", "list", "resource", resource.String(), "namespace", s.Namespace, "serviceAccount", r.account)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		for _, text := range texts {
			add(text)
		}
		if s.Continue = more; more == "" {
			return nil
		}
	}
	return nil
}
