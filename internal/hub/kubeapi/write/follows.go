package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/refs"
)

// Follows returns, for each entry of a Placement with followReferences, the kinds that follow by the
// rights of the context's user. It returns nil if the rights can't be determined now.
type Follows func(context.Context, *v1alpha1.Placement) []v1alpha1.Follows

// followAll is a Follows by which all kinds follow, for all users.
func followAll(_ context.Context, p *v1alpha1.Placement) (all []v1alpha1.Follows) {
	for i, d := range p.Spec.Downsync {
		if d.FollowReferences {
			f := v1alpha1.Follows{Entry: int32(i)} // #nosec G115 -- the schema has 64 at most
			for _, k := range refs.All() {
				f.Resources = append(f.Resources, k.String())
			}
			all = append(all, f)
		}
	}
	return all
}

// followed is the strategy of Placements. A write that changes the spec also records in the status
// which kinds follow, by the rights of its user. Other writes do not change this record, and clients
// can't write it.
type followed struct {
	rest.RESTCreateUpdateStrategy
	follows Follows
}

func (s followed) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForCreate(ctx, obj)
	s.recordFollows(ctx, obj)
}

func (s followed) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	if !sameOrders(obj, old) {
		s.recordFollows(ctx, obj)
	}
}

func (s followed) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.Validate(ctx, obj), unnoted(obj)...)
}

func (s followed) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old)
	if sameOrders(obj, old) {
		return errs
	}
	return append(errs, unnoted(obj)...)
}

func (s followed) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	return append(s.RESTCreateUpdateStrategy.WarningsOnCreate(ctx, obj), unfollowed(obj)...)
}

func (s followed) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	warnings := s.RESTCreateUpdateStrategy.WarningsOnUpdate(ctx, obj, old)
	if sameOrders(obj, old) {
		return warnings
	}
	return append(warnings, unfollowed(obj)...)
}

// followedStatus is the strategy of the status of Placements.
type followedStatus struct{ rest.RESTCreateUpdateStrategy }

func (s followedStatus) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	now, ok := obj.(*unstructured.Unstructured)
	previous, ok2 := old.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return
	}
	list, found, err := unstructured.NestedFieldCopy(previous.Object, "status", "follows")
	setFollows(now, list, found && err == nil)
}

// sameOrders reports whether two versions of a Placement have the same spec and effect.
func sameOrders(obj, old runtime.Object) bool {
	now, ok := obj.(*unstructured.Unstructured)
	previous, ok2 := old.(*unstructured.Unstructured)
	return ok && ok2 && equality.Semantic.DeepEqual(now.Object["spec"], previous.Object["spec"]) &&
		v1alpha1.IsForBelow(labels.Set(now.GetLabels())) == v1alpha1.IsForBelow(labels.Set(previous.GetLabels()))
}

func (s followed) recordFollows(ctx context.Context, obj runtime.Object) {
	u, p := placementOf(obj)
	if p == nil {
		return // the schema refuses it
	}
	var all []any
	for _, f := range s.follows(ctx, p) {
		resources := make([]any, len(f.Resources))
		for i, r := range f.Resources {
			resources[i] = r
		}
		all = append(all, map[string]any{"entry": int64(f.Entry), "resources": resources})
	}
	setFollows(u, all, len(all) > 0)
}

func setFollows(u *unstructured.Unstructured, list any, given bool) {
	if !given {
		if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "follows"); found {
			unstructured.RemoveNestedField(u.Object, "status", "follows")
		}
		return
	}
	if unstructured.SetNestedField(u.Object, list, "status", "follows") != nil {
		return // a status that is no object is refused
	}
}

func placementOf(obj runtime.Object) (*unstructured.Unstructured, *v1alpha1.Placement) {
	return typed[v1alpha1.Placement](obj)
}

// unnoted refuses a write if the kinds that follow could not be determined. Without the record, all
// objects that follow would be removed from their locations.
func unnoted(obj runtime.Object) (errs field.ErrorList) {
	_, p := placementOf(obj)
	if p == nil {
		return nil
	}
	for i, d := range p.Spec.Downsync {
		if d.FollowReferences && !slices.ContainsFunc(p.Status.Follows, func(f v1alpha1.Follows) bool { return int(f.Entry) == i }) {
			errs = append(errs, field.InternalError(field.NewPath("spec", "downsync").Index(i).Child("followReferences"),
				errors.New("the rights of the user can't be determined now: try again")))
		}
	}
	return errs
}

// unfollowed returns a warning for each entry with kinds that do not follow.
func unfollowed(obj runtime.Object) (warnings []string) {
	_, p := placementOf(obj)
	if p == nil {
		return nil
	}
	for _, f := range p.Status.Follows {
		var missing []string
		for _, k := range refs.All() {
			if !slices.Contains(f.Resources, k.String()) {
				missing = append(missing, k.String())
			}
		}
		if missing != nil {
			warnings = append(warnings, fmt.Sprintf("spec.downsync[%d].followReferences: %s do not follow, since you may not get, list and watch them",
				f.Entry, strings.Join(missing, ", ")))
		}
	}
	return warnings
}
