package fencing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// markEvery is the least time between two writes of the Lease, markRetry the longest wait after a failed
	// write, and markRest the wait for an operator: an idle agent makes no requests.
	markEvery, markRetry, markRest = 5 * time.Second, time.Minute, 10 * time.Minute
)

var errNoNamespace = errors.New("there is no namespace")

// needsOperator reports whether a write can only succeed once an operator has changed something at the cluster.
func needsOperator(err error) bool {
	return errors.Is(err, errNoNamespace) || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err)
}

// Marked is the configuration of a Mark. Of its functions only Found and Newer may block.
type Marked struct {
	// Leases are those of the cluster. Target is used to check that the Namespace exists: none is created for a
	// Lease alone.
	Leases            Leases
	Target            *kubeclient.Client
	Namespace, Holder string
	// Now returns the state of the store. Former is the state in the Lease when an agent with this store first
	// read it, which was before its first action. It is nil before that. Found records it in the store.
	Now    func() Copy
	Former *Copy
	Found  func(Copy)
	// May reports whether the agent may act. Sound reports whether the store has records of all its actions.
	May, Sound func() bool
	// Assures reports whether the hub has accepted a session of this agent. Proves reports whether a session
	// proves that the desired objects are complete, so that no other agent serves the location.
	Assures, Proves func() bool
	// Newer is called when the Lease names a state that the store can't have, see Copy.
	Newer func(why string)
	Log   *slog.Logger
}

// Mark records in a Lease at the cluster which store the agent of a whole location last used, and the state of
// this store. An agent with another store, or with an older copy, reads the Lease before it acts. This works
// also where no object shows the change, for example after a removal. It is safe for concurrent use.
type Mark struct {
	Marked

	mu   sync.Mutex
	self ownership.Owner
	// lease is the last known Lease; nil: there is none. seen is set after the first read.
	lease *coordinationv1.Lease
	seen  bool
}

// NewMark returns a Mark that has not read the Lease yet.
func NewMark(m Marked) *Mark { return &Mark{Marked: m} }

func nameOfMark(self ownership.Owner) string { return fmt.Sprintf("orrery-%s-store", self) }

// is reports whether a Lease is the mark of a location.
func (m *Mark) is(self ownership.Owner, lease *ownership.Meta) bool {
	return lease.Namespace == m.Namespace && lease.Name == nameOfMark(self)
}

// show receives the current state of the Lease; nil: there is none.
func (m *Mark) show(self ownership.Owner, meta *ownership.Meta) {
	var lease *coordinationv1.Lease
	if meta != nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: meta.Namespace, Name: meta.Name, UID: types.UID(meta.UID), ResourceVersion: meta.ResourceVersion,
			Labels: meta.Labels, Annotations: meta.Annotations,
		}}
	}
	var named Copy
	if meta != nil {
		named = copyOf(meta.Annotations)
	}
	own := m.Now()
	former, news, again := m.remember(self, lease, named, own)
	switch {
	case news:
		m.Found(former)
	case again && named.ID != own.ID && m.Proves(): // the Lease is this agent's from now on
	case own.precedes(named, former):
		m.Newer(fmt.Sprintf("the Lease %s names another data directory, or a newer state of this one, by which an agent has acted since", pathOf(lease)))
	}
}

// remember records the current Lease. It returns the state in the Lease before the store was first used, whether
// this state is new, and whether the Lease was read before. An agent with the former store, which the hub is
// about to reject, may still advance that state.
func (m *Mark) remember(self ownership.Owner, lease *coordinationv1.Lease, named, own Copy) (former Copy, news, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	again = m.seen
	m.self, m.lease, m.seen = self, lease, true
	switch {
	case m.Former == nil && !again && named.ID != own.ID:
		m.Former, news = &named, true
	case m.Former == nil:
		m.Former = &Copy{}
	case named.ID == m.Former.ID && named.Moves > m.Former.Moves && named.ID != own.ID && m.Assures():
		m.Former, news = &named, true
	}
	return *m.Former, news, again
}

// due returns the Lease to write, and the Lease that it replaces; nil: no write is due. claims reports whether
// the agent acts, or has acted until now: otherwise it only updates its own Lease. A Lease that names another
// store is replaced only while a session proves that the desired objects are complete.
func (m *Mark) due(claims bool) (next, from *coordinationv1.Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	if !m.seen || !m.Sound() || m.lease == nil && (now.Moves == 0 || !claims) {
		return nil, nil
	}
	out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: nameOfMark(m.self)}}
	if m.lease != nil {
		named := copyOf(m.lease.Annotations)
		if named.ID == now.ID && named.Moves >= now.Moves || named.ID != now.ID && !(claims && m.Proves()) {
			return nil, nil
		}
		out = m.lease.DeepCopy()
	}
	stamp := metav1.NewMicroTime(time.Now()) // for people alone
	out.Labels = map[string]string{sharesLabel: string(m.self)}
	out.Annotations = map[string]string{storeAnnotation: now.ID, movesAnnotation: strconv.FormatUint(now.Moves, 10)}
	out.Spec.HolderIdentity, out.Spec.RenewTime = &m.Holder, &stamp
	return out, m.lease
}

// Run writes the Lease after each change of the store, until ctx ends. It repeats a failed write, since a Lease
// with a former store would be evidence against this one.
func (m *Mark) Run(ctx context.Context) {
	failures := uint8(0)
	for ctx.Err() == nil {
		wait := retry.Backoff(failures, markEvery, markRetry)
		switch err := m.Write(ctx, m.May()); {
		case err == nil || apierrors.IsConflict(err): // the watch shows what it has become
			failures, wait = 0, markEvery
		case ctx.Err() == nil:
			if needsOperator(err) {
				wait = markRest
			}
			m.Log.Info("the Lease that names the store can't be written", "error", wire.Brief(err.Error()), "retry", wait)
			failures = min(failures+1, retry.MaxFailures)
		}
		retry.Pause(ctx, wait)
	}
}

// Write writes the Lease if that is due. claims reports whether the agent acts, or has acted until now.
func (m *Mark) Write(ctx context.Context, claims bool) error {
	next, from := m.due(claims)
	if next == nil {
		return nil
	}
	write := m.Leases.UpdateLease
	if from == nil {
		home := key.Identity{Resource: key.Namespaces, Name: m.Namespace}
		if _, err := m.Target.Get(ctx, kubeclient.Namespaces, home); kubeclient.MissingObject(err, home) {
			return fmt.Errorf("%w %q: create it, and apply what \"orrery-agent rbac\" prints: %w", errNoNamespace, m.Namespace, err)
		}
		write = m.Leases.CreateLease
	}
	written, err := write(ctx, next)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the Lease %s exists, and lists by the label %s=%s do not show it; add the label: %w", pathOf(next), sharesLabel, next.Labels[sharesLabel], err)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease == from && written.Name == nameOfMark(m.self) { // or else the watch has shown a newer one
		m.lease = written
	}
	return nil
}
