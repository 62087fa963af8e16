package fencing

import (
	"context"
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
	// markEvery is how often the Lease is written at most, and markRest after how long it is tried
	// again where it can't be.
	markEvery, markRest = 5 * time.Second, 10 * time.Minute
)

// Marked is what a Mark works with. None of its functions may block.
type Marked struct {
	// Leases are those of the cluster, and Target is asked whether the Namespace is there: none is
	// made for a Lease alone.
	Leases            Leases
	Target            *kubeclient.Client
	Namespace, Holder string
	// Now is the state of the store, without an ID while that has nothing. May reports whether the
	// agent acts, and Proves whether a session proves the desired content, so that no other agent
	// works for the location.
	Now         func() Copy
	May, Proves func() bool
	// Newer is called when the Lease names a newer state of the store, or, while no session proves
	// the desired content, another store.
	Newer func(why string)
	Log   *slog.Logger
}

// Mark keeps, in a Lease at the cluster, by which store the agent of a whole location has acted
// last, and how far that was. An agent by another store, or by an older copy, sees that before it
// acts: also where nothing else shows it, as after a removal. It is safe for concurrent use.
type Mark struct {
	Marked

	mu   sync.Mutex
	self ownership.Owner
	// lease is the last known Lease; nil: there is none. seen is set once it was looked for.
	lease *coordinationv1.Lease
	seen  bool
}

// NewMark makes a Mark that has not seen anything yet.
func NewMark(m Marked) *Mark { return &Mark{Marked: m} }

func nameOfMark(self ownership.Owner) string { return fmt.Sprintf("orrery-%s-store", self) }

// is reports whether a Lease is the mark of a location.
func (m *Mark) is(self ownership.Owner, lease *ownership.Meta) bool {
	return lease.Namespace == m.Namespace && lease.Name == nameOfMark(self)
}

// show takes a Lease as it was seen; nil: there is none.
func (m *Mark) show(self ownership.Owner, meta *ownership.Meta) {
	var lease *coordinationv1.Lease
	if meta != nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: meta.Namespace, Name: meta.Name, UID: types.UID(meta.UID), ResourceVersion: meta.ResourceVersion,
			Labels: meta.Labels, Annotations: meta.Annotations,
		}}
	}
	m.keep(self, lease)
	if meta == nil {
		return
	}
	now, there := m.Now(), copyOf(meta.Annotations)
	if there.ID != now.ID && m.Proves() { // the Lease is this agent's from now on
		return
	}
	if now.ID != "" && now.precedes(there) {
		m.Newer(fmt.Sprintf("the Lease %s names another data directory, or a newer state of this one, by which an agent has acted since", pathOf(lease)))
	}
}

// keep keeps the last known Lease.
func (m *Mark) keep(self ownership.Owner, lease *coordinationv1.Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self, m.lease, m.seen = self, lease, true
}

// due is what is to be written by an agent that acts, or has acted until now; nil: nothing is.
func (m *Mark) due() (self ownership.Owner, next *coordinationv1.Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	if !m.seen || now.ID == "" || now.New || now.Moves == 0 {
		return "", nil
	}
	out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: nameOfMark(m.self)}}
	if m.lease != nil {
		there := copyOf(m.lease.Annotations)
		if there.ID == now.ID && there.Moves >= now.Moves || there.ID != now.ID && !m.Proves() {
			return "", nil
		}
		out = m.lease.DeepCopy()
	}
	stamp := metav1.NewMicroTime(time.Now()) // for people alone
	out.Labels = map[string]string{sharesLabel: string(m.self)}
	out.Annotations = map[string]string{storeAnnotation: now.ID, movesAnnotation: strconv.FormatUint(now.Moves, 10)}
	out.Spec.HolderIdentity, out.Spec.RenewTime = &m.Holder, &stamp
	return m.self, out
}

// Run writes the Lease when the store has changed, until ctx ends. What could not be written is tried
// again every markRest: a Lease that names a former store would be evidence against this one.
func (m *Mark) Run(ctx context.Context) {
	for ; ctx.Err() == nil; retry.Pause(ctx, markEvery) {
		if !m.May() {
			continue
		}
		if err := m.Write(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			m.Log.Info("the Lease that names the store can't be written", "error", wire.Brief(err.Error()), "retry", markRest)
			retry.Pause(ctx, markRest)
		}
	}
}

// Write writes the Lease if that is due, for an agent that acts, or has acted until now.
func (m *Mark) Write(ctx context.Context) error {
	self, next := m.due()
	if next == nil {
		return nil
	}
	write := m.Leases.UpdateLease
	if next.UID == "" {
		home := key.Identity{Resource: key.Namespaces, Name: m.Namespace}
		if _, err := m.Target.Get(ctx, kubeclient.Namespaces, home); kubeclient.MissingObject(err, home) {
			return fmt.Errorf("there is no namespace %q: create it, and apply what \"orrery-agent rbac\" prints: %w", m.Namespace, err)
		}
		write = m.Leases.CreateLease
	}
	written, err := write(ctx, next)
	if err == nil {
		m.keep(self, written)
	}
	return err
}
