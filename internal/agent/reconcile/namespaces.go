package reconcile

import (
	"context"
	"errors"
	"fmt"
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

// namespaces creates the namespaces that objects need and that are not desired
// themselves.
type namespaces struct {
	target *kubeclient.Client
	engine *worklist.Worklist
	// shared finds the Namespaces that other shards have; nil: the agent has the whole location.
	shared *hubclient.Namespaces
	making singleflight.Group

	mu    sync.Mutex
	known map[string]struct{} // those known to exist
	// awaited is when a namespace of another shard that was missing is looked for again.
	awaited map[string]time.Time
}

func newNamespaces(t *kubeclient.Client, e *worklist.Worklist, shared *hubclient.Namespaces) *namespaces {
	return &namespaces{target: t, engine: e, shared: shared, known: map[string]struct{}{}, awaited: map[string]time.Time{}}
}

// need creates the namespace of an object if it is missing and not desired itself. It returns errDependency if the
// namespace is desired and has not been tried yet, and errNamespace if it is desired and missing: it would have none of
// its labels. In place of these it returns errShared for a namespace that is desired in another shard, and errUnasked
// until the hub has answered whether it is. refused is true if it can neither be seen nor be created. The requests of
// the context are made in the name of the object's ServiceAccount.
func (n *namespaces) need(ctx context.Context, t *turn) (refused bool, err error) {
	name := t.id.Namespace
	if name == "" || n.knows(name) {
		return false, nil
	}
	wanted, tried := n.engine.Awaits(key.Identity{Resource: key.Namespaces, Name: name})
	if wanted && !tried {
		return false, errDependency
	}
	if n.awaits(name, time.Now()) {
		return false, errShared
	}
	// With prefixes, all that is in a namespace is of the space of the Namespace, and so of one shard.
	shared := !wanted && n.shared != nil && t.placing != key.Prefixed
	var missing error
	switch {
	case wanted:
		missing = errNamespace
	case shared:
		missing = errUnasked
	}
	refused, err = n.once(ctx, t, missing)
	if !shared || !errors.Is(err, errUnasked) {
		return refused, err
	}
	desired, known := n.shared.Desired(t.id.String(), name, time.Now())
	switch {
	case !known:
		return false, errUnasked
	case !desired:
		return n.once(ctx, t, nil)
	}
	if refused, err = n.once(ctx, t, errShared); errors.Is(err, errShared) {
		n.await(name, time.Now().Add(sharedRetry))
	}
	return refused, err
}

// once is make, once for all objects that need it at the same time.
func (n *namespaces) once(ctx context.Context, t *turn, missing error) (refused bool, err error) {
	name, account := t.id.Namespace, t.account()
	of, err, _ := n.making.Do(fmt.Sprint(account, " ", name, " ", missing), func() (any, error) { return n.make(ctx, name, t.view.As, missing) })
	refused, _ = of.(bool)
	return refused, err
}

// make creates a namespace unless it is there. With an error missing it creates none, and returns that error for one
// that is not there. It returns errUnasked for one that cannot be seen, too.
func (n *namespaces) make(ctx context.Context, name string, l ownership.Owner, missing error) (refused bool, err error) {
	if n.knows(name) { // another worker was faster
		return false, nil
	}
	id := key.Identity{Resource: key.Namespaces, Name: name}
	_, err = n.target.Get(ctx, kubeclient.Namespaces, id)
	switch isMissing, isHidden := kubeclient.MissingObject(err, id), apierrors.IsForbidden(err); {
	case isMissing && missing != nil, isHidden && errors.Is(missing, errUnasked):
		return false, missing
	case isHidden && missing != nil:
		return true, nil // the apply shows whether the namespace is there
	case isMissing, isHidden: // the right to create it can exist without the right to read it
		err = n.target.CreateNamespace(ctx, name, l)
	}
	switch {
	case apierrors.IsForbidden(err):
		return true, nil // the apply shows whether the namespace is there
	case err != nil && !apierrors.IsAlreadyExists(err):
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[name] = struct{}{}
	return false, nil
}

func (n *namespaces) knows(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.known[name]
	return ok
}

// awaits reports whether a namespace of another shard was missing a moment ago.
func (n *namespaces) awaits(name string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	until, ok := n.awaited[name]
	if ok && !now.Before(until) {
		delete(n.awaited, name)
	}
	return ok && now.Before(until)
}

func (n *namespaces) await(name string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.awaited[name] = until
}

// forget notes that a namespace does not exist any more.
func (n *namespaces) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, name)
}
