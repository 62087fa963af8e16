package mapper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/wire"
)

const (
	// watchLength is how long a watch lasts, give or take a quarter.
	watchLength = time.Hour
	// maxListRetry and blindRetry are the longest waits before a kind that is not
	// served, and one that may not be read, are tried again.
	maxListRetry = 15 * time.Second
	blindRetry   = 5 * time.Minute
	// blindAfter is how many failures in a row, later each time, make a kind one that
	// cannot be observed: about a minute of them.
	blindAfter = 10
)

// observers keeps one list and watch per kind in use.
type observers struct {
	engine  *engine
	store   *store
	target  *target
	log     *slog.Logger
	trouble func(error)
	// served is called when a kind turned out to be served, or not any more.
	served func()

	changed chan struct{} // one slot
	running map[key.Resource]*observer

	mu sync.Mutex
	// missed are kinds of which the store could not keep what was seen.
	missed map[key.Resource]struct{}
}

// observer observes one kind.
type observer struct {
	*observers
	use
	as     marks.Owner // whose marks it looks for
	cancel context.CancelFunc
	done   chan struct{}
}

// miss takes note that the store could not keep statuses.
func (o *observers) miss(r key.Resource, ids []string) {
	o.engine.forgetStatus(ids)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missed == nil {
		o.missed = map[key.Resource]struct{}{}
	}
	o.missed[r] = struct{}{}
}

// recovered has kinds listed again of which something was missed.
func (o *observers) recovered() {
	o.mu.Lock()
	some := len(o.missed) > 0
	o.mu.Unlock()
	if some {
		o.kindsChanged()
	}
}

// takeMissed returns what was missed since it was called last, unless the store
// cannot keep it still.
func (o *observers) takeMissed() map[key.Resource]struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.store.failing.Load() != nil {
		return nil
	}
	missed := o.missed
	o.missed = nil
	return missed
}

// kindsChanged has run look at what the engine needs. It does not wait.
func (o *observers) kindsChanged() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// run keeps the observers that the engine needs until ctx ends, and waits for them.
func (o *observers) run(ctx context.Context) {
	o.running = map[key.Resource]*observer{}
	for {
		o.sync(ctx)
		select {
		case <-o.changed:
		case <-ctx.Done():
			for _, w := range o.running {
				w.stop()
			}
			return
		}
	}
}

func (o *observers) sync(ctx context.Context) {
	self := o.engine.self()
	if self == "" {
		return // nothing can have our marks yet
	}
	uses, missed := o.engine.uses(), o.takeMissed()
	for r, w := range o.running {
		_, again := missed[r]
		if u, ok := uses[r]; !ok || again || u != w.use || w.as != self {
			w.stop()
			delete(o.running, r)
		}
	}
	for r, u := range uses {
		if o.running[r] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		w := &observer{observers: o, use: u, as: self, cancel: cancel, done: make(chan struct{})}
		o.running[r] = w
		go w.run(ctx)
	}
}

// stop ends the observer and waits, so that what it saw cannot come after what
// its successor sees.
func (w *observer) stop() {
	w.cancel()
	<-w.done
}

// run observes until ctx ends.
func (w *observer) run(ctx context.Context) {
	defer close(w.done)
	var failures uint8
	revision, missing := "", false
	for ctx.Err() == nil {
		var err error
		if revision == "" {
			revision, err = w.list(ctx)
		}
		shown := err == nil
		if missing != missingKind(err) {
			missing = !missing
			w.served()
		}
		if err == nil {
			listed := revision
			if revision, err = w.follow(ctx, revision); revision != listed {
				failures = 0 // it did show something
			}
		}
		if ctx.Err() != nil {
			return
		}
		wait := retry.Backoff(failures, retry.First, maxListRetry)
		failures = min(failures+1, retry.MaxFailures)
		switch {
		case err == nil: // it begins anew
		case missingKind(err):
			revision = ""
			if broken := w.target.probe(ctx); broken != nil {
				w.trouble(broken) // nothing is known of any kind
				break
			}
			w.elsewhere(ctx)
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err), errors.Is(err, errAnswer):
			revision = ""
			if !shown { // or else it is listed again and again
				w.blinded(err)
			}
			wait = retry.Backoff(failures, retry.First, blindRetry) // a permission may be granted at once, or never
		case expired(err):
			revision = ""
		default:
			w.log.Info("list or watch ended", "resource", w.Resource.String(), "error", err)
			w.trouble(err)
			switch {
			case failures < blindAfter:
			case shown:
				revision = "" // a list shows what watches do not
			case w.target.probe(ctx) == nil:
				w.blinded(err) // it is this kind that fails, for longer than anything restarts
			}
		}
		retry.Pause(ctx, max(wait, retryAfter(err)))
	}
}

// blinded takes note that the kind cannot be observed. Its objects are applied all the
// same, and their reports say it.
func (w *observer) blinded(err error) {
	w.log.Warn("a resource cannot be observed, so drift in it is not seen", "resource", w.Resource.String(), "error", err)
	w.engine.blinded(w.Resource, wire.Brief(err.Error()))
}

// elsewhere has a kind observed in another version that the target serves; without one
// it is not served at all. An object is the same in each.
func (w *observer) elsewhere(ctx context.Context) {
	now, err := w.target.find(ctx, w.Resource)
	switch {
	case err != nil:
		w.trouble(err)
	case now.version == "" || now.version == w.version:
		w.engine.lost(w.Resource, unserved)
		w.engine.lost(w.Resource, unserved)
	default:
		w.log.Info("a version is not served any more; its objects are observed in another one", "resource", w.Resource.String(), "was", w.version, "now", now.version)
		w.engine.move(w.use, now)
	}
}

// expired says that a watch cannot go on from its revision.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// selector finds what has our label.
func (w *observer) selector() url.Values {
	return url.Values{"labelSelector": {v1alpha1.LocationLabel + "=" + string(w.as)}}
}

// list reads all objects with our label and returns the list's revision.
func (w *observer) list(ctx context.Context) (string, error) {
	shown := map[string]struct{}{}
	revision, err := w.target.pages(ctx, w.place, "", w.selector(), w.status, func(p *page) (more bool, err error) {
		seen := make([]sighting, 0, len(p.Items))
		for i := range p.Items {
			s := w.sight(&p.Items[i], false)
			shown[s.object.Identity.String()] = struct{}{}
			seen = append(seen, s)
		}
		return true, w.show(ctx, seen, p.Items)
	})
	if err == nil {
		w.engine.synced(w.as, w.Resource, shown, listRevision(revision))
	}
	return revision, err
}

// listRevision is a list's revision, up to which what it does not show is gone. One
// that is not a number, as servers behind an API service may have it, says nothing of
// order: then all is gone that is not shown, and what was made meanwhile is found by
// the next look at it.
func listRevision(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return unordered
	}
	return n
}

// follow watches from a revision on, again and again, until that fails. It
// returns the last revision it has seen.
func (w *observer) follow(ctx context.Context, revision string) (string, error) {
	for {
		next, err := w.watch(ctx, revision)
		if err != nil || next == "" { // without a revision nothing says what came in between
			return next, err
		}
		if next == revision { // a watch that shows nothing may end at once
			retry.Pause(ctx, retry.Backoff(0, retry.First, time.Second))
		}
		revision = next
	}
}

// watchEvent is one line of a watch.
type watchEvent struct {
	Type   string
	Object marks.Observation
	// Error is the Status that an event of that type has instead of an object.
	Error json.RawMessage
}

// UnmarshalJSON decodes the object in place.
func (e *watchEvent) UnmarshalJSON(b []byte) error {
	e.Type = strings.Clone(gjson.GetBytes(b, "type").String())
	object := gjson.GetBytes(b, "object").Raw
	if e.Type == "ERROR" || object == "" {
		e.Error = json.RawMessage(object)
		return nil
	}
	return e.Object.UnmarshalJSON([]byte(object))
}

// watch shows changes until the watch ends, and returns the last revision.
func (w *observer) watch(ctx context.Context, revision string) (string, error) {
	query := w.selector()
	length := watchLength - watchLength/4 + rand.N(watchLength/2)
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", revision)
	query.Set("timeoutSeconds", strconv.Itoa(int(length/time.Second)))
	body, err := w.target.watch(ctx, w.place, query, w.status)
	if err != nil {
		return revision, err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var e watchEvent
		if err := dec.Decode(&e); err != nil {
			if ctx.Err() != nil {
				return revision, ctx.Err()
			}
			w.log.Debug("watch ended", "resource", w.Resource.String(), "error", err)
			return revision, nil // the next one finds out what is wrong, if anything is
		}
		if e.Type == "ERROR" {
			s := apierrors.StatusError{}
			if err := json.Unmarshal(e.Error, &s.ErrStatus); err != nil {
				return revision, fmt.Errorf("watch %s: decode error event: %w", w.Resource, err)
			}
			return revision, &s
		}
		o := e.Object
		if o.Metadata.ResourceVersion == "" && o.Metadata.Name == "" {
			return revision, fmt.Errorf("watch %s: %w: an event of type %q has no object", w.Resource, errAnswer, e.Type)
		}
		revision = o.Metadata.ResourceVersion // none: the next list begins anew
		if e.Type == "BOOKMARK" {
			continue
		}
		if err := w.show(ctx, []sighting{w.sight(&o, e.Type == "DELETED")}, []marks.Observation{o}); err != nil {
			return revision, err
		}
	}
}

// sight is what an observation means.
func (w *observer) sight(o *marks.Observation, gone bool) sighting {
	m := &o.Metadata
	space, ours := m.ProvesOurs(w.as, w.kind)
	s := sighting{
		object: key.Object{Space: space, Identity: key.Identity{Resource: w.Resource, Namespace: m.Namespace, Name: m.Name}},
		ours:   ours, gone: gone,
		seen: observed{
			uid: m.UID, revision: m.Revision(), fields: m.Fields(w.as), terminating: m.DeletionTimestamp != "",
			released: m.Released(), log: m.Log(),
		},
	}
	if len(o.Status) > 0 {
		h := fnv.New64a()
		h.Write(o.Status) // a hash takes every write
		s.status = h.Sum64()
		s.ended = howEnded(w.Resource, o.Status)
	}
	return s
}

// show gives sightings to the engine, and statuses that are asked for to the store.
func (w *observer) show(ctx context.Context, seen []sighting, objects []marks.Observation) error {
	changed := w.engine.observe(w.as, seen)
	if len(changed) == 0 {
		return nil
	}
	ids := make([]string, 0, len(changed))
	for _, i := range changed {
		ids = append(ids, seen[i].object.Identity.String())
	}
	return w.store.submit(ctx, &commit{
		do: func(t *tx) error {
			for n, i := range changed {
				if err := t.put(statusBucket, ids[n], objects[i].Status); err != nil {
					return err
				}
			}
			return nil
		},
		done:   func() { w.engine.again(ids) },
		failed: func(error) { w.miss(w.Resource, ids) },
	})
}
