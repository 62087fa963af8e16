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

// write writes an object of the context's space. The names that CRDs and APIBindings define must be
// unique in a space, so a lock serializes their writes. An APIBinding is validated and stored under
// the lock. A CRD is validated before, and only its names are determined under the lock, see
// namedStorage. write may be called several times, and must not depend on earlier calls.
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

// namedStorage is the storage of CRDs. It determines the accepted names of a CRD, which depend on all
// other definitions of the space, under the lock of these. All other validation comes before.
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

// GuaranteedUpdate implements storage.Interface. If the CRD changes between validation and the
// locked write, it is validated again.
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

// decision is a validated CRD that replaces a revision.
type decision struct {
	rev    uint64
	crd    *apiextensionsv1.CustomResourceDefinition
	status apiextensionsv1.CustomResourceDefinitionStatus
	ttl    *uint64
}

// decide returns an update that records the result of another one and writes nothing.
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

// apply returns an update that writes the decision. It fails with errChanged if the CRD has changed.
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

// settleNames accepts those names of a CRD that are free in the space, and sets the conditions that
// depend on the names and the spec.
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

// previewNames determines the names of a CRD in a dry run, which does not reach namedStorage.
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
