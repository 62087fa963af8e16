package write

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// The value by which an APIExportView slices an object can be set once. If an object changed its
// slice, it would be deleted for one provider and new for another, with all dependent objects of the
// first provider. The value therefore stays until the object is deleted, for all users and even while
// finalizers keep the object. It no longer matters if the space removes an object from a claim.

// keysOf returns the keys by which a kind's objects are sliced in the space of a request.
func (u universal) keysOf(ctx context.Context) []exports.Key {
	s, ok := SpaceFromContext(ctx)
	if !ok || u.server.config.Exports == nil {
		return nil
	}
	return u.server.config.Exports.Keys(s, u.kind.Resource)
}

// protected refuses to change or remove a value by which an object is sliced.
func (u universal) protected(ctx context.Context, obj, old runtime.Object) (problems field.ErrorList) {
	var done []exports.Key
	for _, k := range u.keysOf(ctx) {
		previous, now := valueOf(k.Split, old), valueOf(k.Split, obj)
		if previous == "" || previous == now || !slicesItself(k, old) || !slicesItself(k, obj) ||
			slices.ContainsFunc(done, func(d exports.Key) bool { return d.View == k.View }) {
			continue
		}
		done = append(done, k)
		problems = append(problems, field.Forbidden(splitPath(k.Split), fmt.Sprintf(
			"APIExportView %q of space %q slices by it: it stays %q until the object is deleted", k.View.Name, k.View.Space, previous)))
	}
	return problems
}

// keepValues restores the values by which an object is sliced if the version of a write does not
// have their fields, so that its client can neither read nor change them. It fails if conversion to
// the stored version would lose them. path is the table's key of the object.
func (s *Server) keepValues(ctx context.Context, kind *kinds.Kind, path string, obj, old runtime.Object) error {
	now, ok := obj.(*unstructured.Unstructured)
	if !ok || s.config.Exports == nil {
		return nil
	}
	space, resource, _, _ := key.Split(path)
	for _, k := range s.config.Exports.Keys(space, resource) {
		if !k.Field || k.Claim != nil || valueOf(k.Split, old) != "" {
			continue
		}
		row, err := s.rowOf(ctx, path, old)
		if err != nil {
			return err
		}
		if row == nil {
			return nil // the object was deleted meanwhile
		}
		if err := keepValue(kind, k, now, row); err != nil {
			return err
		}
	}
	return nil
}

func keepValue(kind *kinds.Kind, k exports.Key, now *unstructured.Unstructured, row *table.Row) error {
	value := exports.ValueIn(k.Split, row.Entry)
	if value == "" {
		return nil
	}
	if valueOf(k.Split, now) == "" {
		if err := setValue(k.Split, now, value); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	data, err := runtime.Encode(kind.StorageCodec, now)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if exports.ValueIn(k.Split, table.NewEntry(row.Key, data, 0, 0)) == value {
		return nil
	}
	return apierrors.NewForbidden(kind.GVR.GroupResource(), now.GetName(), fmt.Errorf(
		"APIExportView %q of space %q slices by %s, which would be lost: it can be written as %s alone", k.View.Name, k.View.Space, k.Split.Field, kind.Storage.Version))
}

// rowOf returns the row of a stored object. If the table has a later version of the object, it returns
// that: the transaction for the stored one then fails and is retried.
func (s *Server) rowOf(ctx context.Context, path string, stored runtime.Object) (*table.Row, error) {
	m, err := meta.Accessor(stored)
	if err != nil {
		return nil, err
	}
	rev, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("%q has no revision: %w", path, err))
	}
	if err := s.config.Table.WaitFor(ctx, rev); err != nil {
		return nil, err
	}
	row, _ := s.config.Table.Get(path)
	return row, nil
}

func setValue(split v1alpha1.Split, u *unstructured.Unstructured, value string) error {
	return unstructured.SetNestedField(u.Object, value, strings.Split(split.Field[1:], ".")...)
}

// slicesItself reports whether a key slices an object by a value of its own.
func slicesItself(k exports.Key, obj runtime.Object) bool {
	if k.Claim == nil {
		return true
	}
	m, err := meta.Accessor(obj)
	return err == nil && !k.Field && k.Claim.Selects(labels.Set(m.GetLabels()))
}

// valueOf returns the value of the object itself, or "".
func valueOf(split v1alpha1.Split, obj runtime.Object) string {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return exports.ValueOf(split, u.Object)
	}
	m, err := meta.Accessor(obj)
	if err != nil || split.Field != "" {
		return "" // a field slices only custom resources
	}
	return m.GetLabels()[split.Label]
}

// splitPath returns the path of the value by which a view slices.
func splitPath(split v1alpha1.Split) *field.Path {
	if split.Field == "" {
		return field.NewPath("metadata", "labels").Key(split.Label)
	}
	names := strings.Split(split.Field[1:], ".")
	return field.NewPath(names[0], names[1:]...)
}
