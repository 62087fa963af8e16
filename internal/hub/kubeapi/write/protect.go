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

// What an APIExportView slices objects by is set once, by whoever writes it first: an object
// that changed slices would be deleted for one provider and new to another, with all that the
// first has made for it. So the value is kept until the object is gone, also while finalizers
// hold it, and whoever writes. Claimed objects that their space takes from the claim are free.

// keysOf are the keys by which a kind's objects are sliced in the space of a request.
func (u universal) keysOf(ctx context.Context) []exports.Key {
	s, ok := SpaceFromContext(ctx)
	if !ok || u.server.config.Exports == nil {
		return nil
	}
	return u.server.config.Exports.Keys(s, u.kind.Resource)
}

// protected refuses to change or take away a value by which an object is sliced.
func (u universal) protected(ctx context.Context, obj, old runtime.Object) (problems field.ErrorList) {
	var done []exports.Key
	for _, k := range u.keysOf(ctx) {
		was, now := valueOf(k.Split, old), valueOf(k.Split, obj)
		if was == "" || was == now || !slicesItself(k, old) || !slicesItself(k, obj) ||
			slices.ContainsFunc(done, func(d exports.Key) bool { return d.View == k.View }) {
			continue
		}
		done = append(done, k)
		problems = append(problems, field.Forbidden(splitPath(k.Split), fmt.Sprintf(
			"APIExportView %q of space %q slices by it: it stays %q until the object is deleted", k.View.Name, k.View.Space, was)))
	}
	return problems
}

// keepValues gives an object that is written in place of an old one what it is sliced by,
// where the version that it is read and written by has no such field: it can neither tell nor
// change it. It refuses what would not be stored with it. path is the table's key of the object.
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
			return nil // it is gone meanwhile
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

// rowOf is the row of what is stored. If the table has a later version of the object, it is
// that: a transaction that goes by this one fails, and begins again.
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

// slicesItself says whether a key slices an object by a value of its own.
func slicesItself(k exports.Key, obj runtime.Object) bool {
	if k.Claim == nil {
		return true
	}
	m, err := meta.Accessor(obj)
	return err == nil && !k.Field && k.Claim.Selects(labels.Set(m.GetLabels()))
}

// valueOf is the value that an object has of its own; "" if it has none.
func valueOf(split v1alpha1.Split, obj runtime.Object) string {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return exports.ValueOf(split, u.Object)
	}
	m, err := meta.Accessor(obj)
	if err != nil || split.Field != "" {
		return "" // only what CRDs define is sliced by a field
	}
	return m.GetLabels()[split.Label]
}

// splitPath is where a value is.
func splitPath(split v1alpha1.Split) *field.Path {
	if split.Field == "" {
		return field.NewPath("metadata", "labels").Key(split.Label)
	}
	names := strings.Split(split.Field[1:], ".")
	return field.NewPath(names[0], names[1:]...)
}
