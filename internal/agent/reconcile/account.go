package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
)

// account is the ServiceAccount in whose name the turn's requests are made: that of what
// is desired, or else that by which the object was desired last, which for an agent that
// has lost its store is at the object. Empty: the agent's own name.
func (t *turn) account() string {
	if w := t.want(); w != nil && w.Object() != nil {
		return w.Object().Policy.ServiceAccount
	}
	if t.record != nil {
		return t.record.Source.Policy.ServiceAccount
	}
	return t.view.Seen.Account
}

// readings remembers how objects were seen that accounts were seen to be allowed to read. It is safe
// for concurrent use.
type readings struct {
	mu  sync.Mutex
	all map[string]reading // by identity
}

// reading is how an object was seen, and who may read it.
type reading struct {
	account, uid string
	live         uint64
}

func (r *readings) knows(id string, of reading) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id] == of
}

func (r *readings) note(id string, of reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[id] = of
}

func (r *readings) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
}

// permitted keeps from a report what the account that acts for the object may not read.
// The agent observes objects with its own rights; how an object does, its status, or how a
// Job or Pod has ended, is passed on only if the account itself can read the object as it
// is. That is found out once for each change of these. Where nothing but the health would be
// told, that is left out and nothing else follows of it.
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
	if r.readings.knows(id, now) {
		return o
	}
	_, err := r.Target.Get(ctx, t.view.At, t.id)
	switch {
	case err == nil, kubeclient.MissingObject(err, t.id): // what is gone has nothing to hide that it has
		r.readings.note(id, now)
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
	said := r.refusals.of(t, err)
	said.record, said.changed, said.seen, said.drifted = o.record, o.changed, o.seen, o.drifted
	return said
}

// unread is why the health of an object is unknown that its account can't read.
const unread = "the ServiceAccount that acts for the object may not read it, or could not"

// unreadEnd stands for how a Job or Pod has ended that the account may not read.
const unreadEnd = "Ended"
