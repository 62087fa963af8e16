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

// creates validates a new object: its references, and then as the handler does.
func (p *exportWrite) creates(ctx context.Context, obj runtime.Object, create rest.ValidateObjectFunc) error {
	if err := p.checkForeign(obj, nil); err != nil {
		return err
	}
	return create(ctx, obj)
}

// updates is creates for an existing object.
func (p *exportWrite) updates(ctx context.Context, obj, old runtime.Object, update rest.ValidateObjectUpdateFunc) error {
	if err := p.checkForeign(obj, old); err != nil {
		return err
	}
	return update(ctx, obj, old)
}

// checkForeign refuses a write in a slice that would refer to a claimed object outside of the slice.
// The claimed object would follow the reference into the slice. old is nil for a new object.
func (p *exportWrite) checkForeign(obj, old runtime.Object) error {
	if _, scale := obj.(*autoscalingv1.Scale); scale || !p.ID.View || p.kind.Custom == nil {
		return nil
	}
	now, err := p.entryOf(obj)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var previous *table.Entry
	if old != nil {
		if previous, err = p.entryOf(old); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	foreign := p.server.config.Exports.Foreign(p.server.config.Table.Snapshot(), p.ID, previous, now)
	if len(foreign) == 0 {
		return nil
	}
	var causes []metav1.StatusCause
	for _, ref := range foreign {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(field.ErrorTypeForbidden), Field: ref.Path[1:],
			Message: fmt.Sprintf("%q can't be named here: it is not in this slice of APIExportView %q", ref.Name, p.ID.Name)})
	}
	refused := apierrors.NewForbidden(p.kind.GVR.GroupResource(), p.called.name, fmt.Errorf("%s: %s", causes[0].Field, causes[0].Message))
	refused.ErrStatus.Details.Causes = causes
	return refused
}

// validateOtherSlices refuses a write by a view that would remove an object from another slice that
// contains it. This can happen by a label of the object, or by its owners, which take precedence over
// references to it. on are the views that would contain the object.
func (p *exportWrite) validateOtherSlices(state table.Reader, obj, old runtime.Object, views []key.ExportView) field.ErrorList {
	if !p.ID.View || old == nil || sameFollowed(obj, old) {
		return nil
	}
	previous, err := p.viewsOf(state, old)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	i := slices.IndexFunc(previous, func(f key.ExportView) bool {
		return f.Space == p.ID.Space && f.Value != "" && !slices.Contains(views, f)
	})
	if i < 0 {
		return nil
	}
	view, path := previous[i], field.NewPath("metadata", "ownerReferences")
	view.Value = ""
	for _, k := range p.server.config.Exports.Keys(p.space, p.kind.Resource) {
		if k.View == view && valueOf(k.Split, obj) != "" {
			path = splitPath(k.Split)
		}
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("by this it would leave another slice of APIExportView %q that has it, too", view.Name))}
}

// sameFollowed reports whether two versions of an object are in the same slices: their labels and
// owners are equal.
func sameFollowed(obj, old runtime.Object) bool {
	now, err := meta.Accessor(obj)
	previous, err2 := meta.Accessor(old)
	return err == nil && err2 == nil && maps.Equal(now.GetLabels(), previous.GetLabels()) &&
		equality.Semantic.DeepEqual(now.GetOwnerReferences(), previous.GetOwnerReferences())
}
