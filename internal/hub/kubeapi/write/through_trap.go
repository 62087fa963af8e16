package write

import (
	"context"
	"fmt"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// creates asks what a handler asks of a new object, after traps.
func (p *passage) creates(ctx context.Context, obj runtime.Object, create rest.ValidateObjectFunc) error {
	if err := p.traps(obj, nil); err != nil {
		return err
	}
	return create(ctx, obj)
}

// updates is creates for what there is already.
func (p *passage) updates(ctx context.Context, obj, old runtime.Object, update rest.ValidateObjectUpdateFunc) error {
	if err := p.traps(obj, old); err != nil {
		return err
	}
	return update(ctx, obj, old)
}

// traps refuses a write by way of a slice by which a claimed object that is there, and not in
// the slice, would be named: it would follow what names it, and be shown there. old is nil if
// there is nothing.
func (p *passage) traps(obj, old runtime.Object) error {
	if _, scale := obj.(*autoscalingv1.Scale); scale || !p.Shelf.View || p.kind.Custom == nil {
		return nil
	}
	now, err := p.entryOf(obj)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var was *table.Entry
	if old != nil {
		if was, err = p.entryOf(old); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	foreign := p.server.config.Exports.Foreign(p.server.config.Table.Snapshot(), p.Shelf, was, now)
	if len(foreign) == 0 {
		return nil
	}
	var causes []metav1.StatusCause
	for _, ref := range foreign {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(field.ErrorTypeForbidden), Field: ref.Path[1:],
			Message: fmt.Sprintf("%q can't be named here: it is not in this slice of APIExportView %q", ref.Name, p.Shelf.Name)})
	}
	refused := apierrors.NewForbidden(p.kind.GVR.GroupResource(), p.called.name, fmt.Errorf("%s: %s", causes[0].Field, causes[0].Message))
	refused.ErrStatus.Details.Causes = causes
	return refused
}

// takes refuses a write by way of a view's shelf by which an object that several slices show would
// leave one of the others: by a label of its own, or by other owners, which count before what
// refers to it. on are the shelves that it would be on.
func (p *passage) takes(state table.Reader, obj, old runtime.Object, on []key.Shelf) field.ErrorList {
	if !p.Shelf.View || old == nil || sameFollowed(obj, old) {
		return nil
	}
	was, err := p.shelvesOf(state, old)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	i := slices.IndexFunc(was, func(f key.Shelf) bool {
		return f.Space == p.Shelf.Space && f.Value != "" && !slices.Contains(on, f)
	})
	if i < 0 {
		return nil
	}
	view, at := was[i], field.NewPath("metadata", "ownerReferences")
	view.Value = ""
	for _, k := range p.server.config.Exports.Keys(p.space, p.kind.Resource) {
		if k.View == view && valueOf(k.Split, obj) != "" {
			at = splitPath(k.Split)
		}
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("by this it would leave another slice of APIExportView %q that has it, too", view.Name))}
}

// sameFollowed says that two versions of an object follow the same: they have the same labels
// and owners.
func sameFollowed(obj, old runtime.Object) bool {
	now, err := meta.Accessor(obj)
	was, err2 := meta.Accessor(old)
	return err == nil && err2 == nil && maps.Equal(now.GetLabels(), was.GetLabels()) &&
		equality.Semantic.DeepEqual(now.GetOwnerReferences(), was.GetOwnerReferences())
}
