package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// absentFor is how long a Namespace counts as missing after the cluster has answered that it is. The objects
	// that need it cause one request in that time.
	absentFor = sharedRetry
	// maxKnownNamespaces limits the number of Namespaces that are known to exist or to be missing.
	maxKnownNamespaces = 10_000
)

// namespaces creates the Namespaces that objects need and that are not desired themselves.
type namespaces struct {
	target *kubeclient.Client
	engine *worklist.Worklist
	// shared finds the Namespaces that other shards have; nil: the agent has the whole location.
	shared *hubclient.Namespaces
	making singleflight.Group

	mu    sync.Mutex
	known map[string]struct{} // those known to exist
	// absent contains, for Namespaces of other shards, the time until which they count as missing.
	absent map[string]time.Time
}

func newNamespaces(t *kubeclient.Client, e *worklist.Worklist, shared *hubclient.Namespaces) *namespaces {
	return &namespaces{target: t, engine: e, shared: shared, known: map[string]struct{}{}, absent: map[string]time.Time{}}
}

// need creates the Namespace of an object if it is missing and not desired itself. It returns errDependency if the
// Namespace is desired and has not been tried yet, and errNamespace if it is desired and missing: it would have none of
// its labels. In place of these it returns errShared for a Namespace that is desired in another shard,
// hubclient.ErrPending while the hub is asked whether it is, and hubclient.ErrUnanswered if the hub does not answer.
// refused is true if the Namespace can neither be read nor be created. The requests of the context are made in the name
// of the object's ServiceAccount.
func (n *namespaces) need(ctx context.Context, t *turn) (refused bool, err error) {
	name := t.id.Namespace
	if name == "" || n.isKnown(name) {
		return false, nil
	}
	wanted, tried := n.engine.Awaits(key.Identity{Resource: key.Namespaces, Name: name})
	// With prefixes, all that is in a namespace is of the space of the Namespace, and so of one shard.
	shared := !wanted && n.shared != nil && t.placing != key.Prefixed
	switch {
	case wanted && !tried:
		return false, errDependency
	case wanted:
		return n.once(ctx, t, errNamespace)
	case shared:
		return n.needShared(ctx, t)
	}
	return n.once(ctx, t, nil)
}

// needShared is need for a Namespace that another shard may have.
func (n *namespaces) needShared(ctx context.Context, t *turn) (refused bool, err error) {
	name := t.id.Namespace
	if !n.isAbsent(name, time.Now()) {
		refused, err = n.once(ctx, t, hubclient.ErrPending)
		if !errors.Is(err, hubclient.ErrPending) {
			return refused, err
		}
	}
	desired, err := n.shared.Desired(t.id.String(), name, t.want().Object().Log, time.Now())
	switch {
	case err != nil:
		return false, err
	case !desired:
		return n.once(ctx, t, nil)
	case n.isAbsent(name, time.Now()):
		return false, errShared
	}
	return n.once(ctx, t, errShared)
}

// once is make, once for all objects that need it at the same time.
func (n *namespaces) once(ctx context.Context, t *turn, missing error) (refused bool, err error) {
	name, account := t.id.Namespace, t.account()
	result, err, _ := n.making.Do(fmt.Sprint(account, " ", name, " ", missing), func() (any, error) { return n.make(ctx, name, t.view.As, missing) })
	refused, _ = result.(bool)
	return refused, err
}

// make creates a Namespace unless it exists. With an error missing it creates none, and returns that error for one
// that does not exist. It returns hubclient.ErrPending for one that cannot be read, too.
func (n *namespaces) make(ctx context.Context, name string, l ownership.Owner, missing error) (refused bool, err error) {
	if n.isKnown(name) { // another worker was faster
		return false, nil
	}
	id := key.Identity{Resource: key.Namespaces, Name: name}
	_, err = n.target.Get(ctx, kubeclient.Namespaces, id)
	isMissing, isHidden := kubeclient.MissingObject(err, id), apierrors.IsForbidden(err)
	if isMissing && n.shared != nil {
		n.setAbsent(name, time.Now())
	}
	switch {
	case isMissing && missing != nil, isHidden && errors.Is(missing, hubclient.ErrPending):
		return false, missing
	case isHidden && missing != nil:
		return true, nil // the apply shows whether the Namespace exists
	case isMissing, isHidden: // the right to create it can exist without the right to read it
		err = n.target.CreateNamespace(ctx, name, l)
	}
	switch {
	case apierrors.IsForbidden(err):
		return true, nil // the apply shows whether the Namespace exists
	case err != nil && !apierrors.IsAlreadyExists(err):
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxKnownNamespaces {
		clear(n.known) // each costs one request to find again
	}
	n.known[name] = struct{}{}
	delete(n.absent, name)
	return false, nil
}

func (n *namespaces) isKnown(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.known[name]
	return ok
}

// isAbsent reports whether the cluster has answered a moment ago that a Namespace is missing.
func (n *namespaces) isAbsent(name string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Before(n.absent[name])
}

// setAbsent records that the cluster has answered that a Namespace is missing.
func (n *namespaces) setAbsent(name string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.absent) >= maxKnownNamespaces {
		maps.DeleteFunc(n.absent, func(_ string, until time.Time) bool { return !now.Before(until) })
	}
	if len(n.absent) < maxKnownNamespaces { // otherwise each object asks
		n.absent[name] = now.Add(absentFor)
	}
}

// forget records that a Namespace does not exist any more.
func (n *namespaces) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, name)
}
