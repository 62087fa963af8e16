package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
)

// account returns the ServiceAccount in whose name the turn's requests are made: that of the
// desired object, or else the last one. An agent that has lost its store reads that from the
// object. It is empty for the agent's own name.
func (t *turn) account() string {
	if account, ok := decide.Account(t.want(), t.record); ok {
		return account
	}
	return t.view.Seen.Account
}

// readings has the observed objects that their accounts may read. It is safe for concurrent use.
type readings struct {
	mu  sync.Mutex
	all map[string]reading // by identity
}

// reading is an object as it was observed, and the account that may read it.
type reading struct {
	account, uid string
	live         uint64
}

func (r *readings) contains(id string, one reading) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id] == one
}

func (r *readings) add(id string, one reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[id] = one
}

func (r *readings) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
}

// permitted removes from a report what the account of the object may not read. The agent
// observes objects with its own rights. It reports the health, the status, and the completion of
// a Job or Pod only if the account can read the object. It checks that once for each change of
// these. If only the health is left out, nothing else changes.
func (r *Reconciler) permitted(ctx context.Context, t *turn, o outcome) outcome {
	account, id := t.account(), t.id.String()
	if account == "" || o.forget || o.letGo {
		r.readings.forget(id)
		return o
	}
	if o.keep || o.record == nil || t.completed == "" && t.live == nil {
		return o
	}
	var live store.Live
	if t.live != nil {
		live = *t.live
	}
	h := fnv.New64a() // a hash takes every write
	h.Write(fmt.Appendf(nil, "%s %d %s %q %q ", live.UID, live.Generation, live.Health, live.Detail, live.Diagnosed()))
	h.Write(live.Status)
	h.Write([]byte(t.completed))
	now := reading{account, o.record.UID, h.Sum64()}
	if r.readings.contains(id, now) {
		return o
	}
	_, err := r.Target.Get(ctx, t.view.Place, t.id)
	switch {
	case err == nil, kubeclient.MissingObject(err, t.id): // a missing object has nothing to hide
		r.readings.add(id, now)
		return o
	}
	r.readings.forget(id)
	t.live, t.hidden = nil, unread
	if w := t.want(); t.completed == "" && (w == nil || w.Object() == nil || !w.Object().Policy.ReturnStatus) {
		if !apierrors.IsForbidden(err) && o.Retry == 0 {
			o.Retry = maxRetry
		}
		return o
	}
	if t.completed != "" {
		t.completed = unreadEnd
	}
	failed := r.refusals.outcome(t, err)
	failed.record, failed.changed, failed.seen, failed.drifted = o.record, o.changed, o.seen, o.drifted
	return failed
}

// unread is why the health of an object is unknown that its account can't read.
const unread = "the ServiceAccount that acts for the object may not read it, or could not"

// unreadEnd stands for how a Job or Pod has ended that the account may not read.
const unreadEnd = "Ended"
