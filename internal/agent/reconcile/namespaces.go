package reconcile

import (
	"context"
	"sync"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	making singleflight.Group

	mu    sync.Mutex
	known map[string]struct{} // those known to exist
}

func newNamespaces(t *kubeclient.Client, e *worklist.Worklist) *namespaces {
	return &namespaces{target: t, engine: e, known: map[string]struct{}{}}
}

// need creates a namespace if it is missing and not desired itself. It returns errDependency if the namespace
// is desired and has not been tried yet, and errNamespace if it is desired and missing: it would have none of
// its labels. refused is true if it can neither be seen nor be created. account is the ServiceAccount in whose
// name the context's requests are made.
func (n *namespaces) need(ctx context.Context, account, name string, l ownership.Owner) (refused bool, err error) {
	if name == "" || n.knows(name) {
		return false, nil
	}
	wanted, tried := n.engine.Awaits(key.Identity{Resource: key.Namespaces, Name: name})
	if wanted && !tried {
		return false, errDependency
	}
	of, err, _ := n.making.Do(account+" "+name, func() (any, error) { return n.make(ctx, name, l, wanted) })
	refused, _ = of.(bool)
	return refused, err
}

// make creates a namespace unless it is there. One that is wanted is only looked for.
func (n *namespaces) make(ctx context.Context, name string, l ownership.Owner, wanted bool) (refused bool, err error) {
	if n.knows(name) { // another worker was faster
		return false, nil
	}
	id := key.Identity{Resource: key.Namespaces, Name: name}
	_, err = n.target.Get(ctx, kubeclient.Namespaces, id)
	switch missing := kubeclient.MissingObject(err, id); {
	case missing && wanted:
		return false, errNamespace
	case apierrors.IsForbidden(err) && wanted:
		return true, nil // the apply shows whether the namespace is there
	case missing, apierrors.IsForbidden(err): // the right to create it can exist without the right to read it
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

// forget notes that a namespace does not exist any more.
func (n *namespaces) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, name)
}
