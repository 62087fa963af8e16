package write

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"

	"orrery.dev/orrery/internal/protocol/key"
)

// definitionWrites writes CRDs and APIBindings.
type definitionWrites struct{ *Server }

// write writes an object of the context's space. The names that CRDs and APIBindings define must
// agree within a space, so they are written one at a time: an APIBinding is decided and stored in
// its turn. A CRD is decided before, and only its names are settled in its turn, see namedStorage.
// The function must not depend on an earlier call of it.
func (s definitionWrites) write(ctx context.Context, r key.Resource, write func(context.Context) error) error {
	switch r {
	case key.APIBindings:
		return s.defining(ctx, write)
	case key.CRDs:
		space, _ := SpaceFromContext(ctx)
		done, err := s.deciding.acquire(ctx, space)
		if err != nil {
			return fmt.Errorf("wait for other definitions to be validated: %w", err)
		}
		defer done()
		return write(context.WithValue(ctx, namingKey, true))
	}
	return write(ctx)
}

// namedStorage is the storage of CRDs. It settles the names of a CRD that clients write, which
// depend on all others, in the turn of the space's definitions. Everything else is decided before.
type namedStorage struct {
	storage.Interface
	writes definitionWrites
}

var errChanged = errors.New("the CRD was changed while a change of it was validated")

// Create implements storage.Interface.
func (n namedStorage) Create(ctx context.Context, k string, obj, out runtime.Object, ttl uint64) error {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || ctx.Value(namingKey) == nil {
		return n.Interface.Create(ctx, k, obj, out, ttl)
	}
	status := crd.Status
	return n.writes.defining(ctx, func(ctx context.Context) error {
		status.DeepCopyInto(&crd.Status)
		n.writes.settleNames(ctx, crd)
		return n.Interface.Create(ctx, k, obj, out, ttl)
	})
}

// GuaranteedUpdate implements storage.Interface. If the CRD changes between the decision and the
// turn, it is decided again.
func (n namedStorage) GuaranteedUpdate(ctx context.Context, k string, out runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	if ctx.Value(namingKey) == nil {
		return n.Interface.GuaranteedUpdate(ctx, k, out, ignoreNotFound, preconditions, update, cached)
	}
	for range maxMoved {
		d := decision{}
		err := n.Interface.GuaranteedUpdate(ctx, k, out, ignoreNotFound, preconditions, d.decide(update), cached)
		if !errors.Is(err, errDecided) {
			return err
		}
		err = n.writes.defining(ctx, func(ctx context.Context) error {
			complete := func(crd *apiextensionsv1.CustomResourceDefinition) { n.writes.settleNames(ctx, crd) }
			return n.Interface.GuaranteedUpdate(ctx, k, out, ignoreNotFound, preconditions, d.apply(complete), nil)
		})
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return apierrors.NewServerTimeout(groupResource(key.CRDs), "write", 1)
}

var errDecided = errors.New("the change is decided, and not written yet")

// decision is the CRD to store in place of a revision.
type decision struct {
	rev    uint64
	crd    *apiextensionsv1.CustomResourceDefinition
	status apiextensionsv1.CustomResourceDefinitionStatus
	ttl    *uint64
}

// decide is an update that decides by another one, and writes nothing.
func (d *decision) decide(update storage.UpdateFunc) storage.UpdateFunc {
	return func(existing runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj, ttl, err := update(existing, res)
		if err != nil {
			return nil, nil, err
		}
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return nil, nil, fmt.Errorf("want a CustomResourceDefinition, got %T", obj)
		}
		*d = decision{res.ResourceVersion, crd, crd.Status, ttl}
		return nil, nil, errDecided
	}
}

// apply is an update by the decision. It fails with errChanged if the CRD has changed.
func (d *decision) apply(complete func(*apiextensionsv1.CustomResourceDefinition)) storage.UpdateFunc {
	return func(_ runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if res.ResourceVersion != d.rev {
			return nil, nil, errChanged
		}
		d.status.DeepCopyInto(&d.crd.Status)
		complete(d.crd)
		return d.crd, d.ttl, nil
	}
}

// settleNames gives a CRD those names that are free in the space, and sets the conditions that
// follow from that and from the spec.
func (s definitionWrites) settleNames(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	space, ok := SpaceFromContext(ctx)
	if !ok {
		return
	}
	now := s.config.Now()
	acceptNames(crd, s.namesTaken(s.config.Table.Snapshot(), space, crd.Spec.Group, key.Identity{Resource: key.CRDs, Name: crd.Name}), now)
	setConversion(crd, metav1.NewTime(now))
	setApproval(crd, metav1.NewTime(now))
}

// previewNames settles the names of a CRD that a dry run returns: it has not come to storage.
func (s definitionWrites) previewNames(ctx context.Context, out runtime.Object, dryRun []string) error {
	crd, ok := out.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || !dryrun.IsDryRun(dryRun) {
		return nil
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	s.settleNames(ctx, crd)
	return nil
}
