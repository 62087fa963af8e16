package mapper

import (
	"context"
	"sync"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/target"
)

// namespaces makes those that objects need and nobody has placed.
type namespaces struct {
	target *target.Client
	engine *engine
	making singleflight.Group

	mu    sync.Mutex
	known map[string]struct{} // that exist, as far as is known
}

func newNamespaces(t *target.Client, e *engine) *namespaces {
	return &namespaces{target: t, engine: e, known: map[string]struct{}{}}
}

// need makes a namespace that nobody has placed, if it is missing.
func (n *namespaces) need(ctx context.Context, name string, l marks.Owner) error {
	if name == "" || n.knows(name) {
		return nil
	}
	if n.engine.awaits(key.Identity{Resource: key.Namespaces, Name: name}) {
		return errDependency
	}
	_, err, _ := n.making.Do(name, func() (any, error) { return nil, n.make(ctx, name, l) })
	return err
}

func (n *namespaces) make(ctx context.Context, name string, l marks.Owner) error {
	if n.knows(name) { // another worker was faster
		return nil
	}
	id := key.Identity{Resource: key.Namespaces, Name: name}
	_, err := n.target.Get(ctx, target.Namespaces, id)
	if target.MissingObject(err, id) {
		err = n.target.CreateNamespace(ctx, name, l)
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil // the apply tells
	case err != nil && !apierrors.IsAlreadyExists(err):
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[name] = struct{}{}
	return nil
}

func (n *namespaces) knows(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.known[name]
	return ok
}

// forget takes note that one does not exist any more.
func (n *namespaces) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, name)
}
