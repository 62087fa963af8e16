package queries

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/suggest"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxCompared is the number of objects whose names are compared with one that does not exist.
const maxCompared = 1000

// existence checks that what a query names exists, or that a location still reports it. An error
// suggests a similar name that the reader may list.
type existence struct {
	state  table.Reader
	rights *rights
	// unassigned returns the objects below a path at locations that they are not assigned to.
	unassigned func(ctx context.Context, prefix string) ([]progress.Unassigned, error)
}

// object fails if an object neither exists in its space nor is reported.
func (e existence) object(ctx context.Context, o key.Object) error {
	if e.state.Get(o.Key()) != nil {
		return nil
	}
	return e.unlessLeft(ctx, o, func(progress.Unassigned) bool { return true }, o)
}

// placement fails if a Placement neither exists nor has assigned an object that a location still has.
func (e existence) placement(ctx context.Context, ref key.PlacementRef) error {
	p := ref.Resolve(e.rights.space)
	if e.state.Get(p.Object().Key()) != nil {
		return nil
	}
	all, err := e.unassigned(ctx, key.PathPrefix(e.rights.space))
	if err != nil {
		return err
	}
	for _, l := range all { // as many as a space may have
		if err := ctx.Err(); err != nil {
			return err
		}
		o, err := key.ParsePath(l.Path)
		if err != nil {
			continue
		}
		if _, placement := objectstate.LetGo(reportOf(e.state, o, l.Location)); placement == ref {
			return nil
		}
	}
	return e.notFound(p.Object())
}

// location fails if the space does not see a location, and that does not have the object either. The error is the same
// whether or not the location exists.
func (e existence) location(ctx context.Context, l key.Location, o key.Object) error {
	if row := e.state.Get(l.Key()); row != nil && placement.Shown(row, e.rights.space) {
		return nil
	}
	location := key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Locations, Name: string(l)}}
	return e.unlessLeft(ctx, o, func(u progress.Unassigned) bool { return u.Location == l }, location)
}

// unlessLeft returns the error that missing does not exist, unless a location that isLeft accepts has an
// object that is not assigned to it.
func (e existence) unlessLeft(ctx context.Context, o key.Object, isLeft func(progress.Unassigned) bool, missing key.Object) error {
	all, err := e.unassigned(ctx, o.Path())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(u progress.Unassigned) bool { return u.Path == o.Path() && isLeft(u) }) {
		return nil
	}
	return e.notFound(missing)
}

// notFound returns the error for an object that does not exist.
func (e existence) notFound(o key.Object) error {
	err := apierrors.NewNotFound(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name)
	ofSpace := o.Space == e.rights.space || o.Resource == key.Locations // a space shows the locations that accept it
	if !ofSpace || !e.rights.lists(key.Identity{Resource: o.Resource, Namespace: o.Namespace}) {
		return err
	}
	prefix := strings.TrimSuffix(o.Key(), o.Name)
	near := suggest.Nearest(o.Name, func(yield func(string) bool) {
		compared := 0
		e.state.Ascend(prefix, func(row *table.Row) bool {
			compared++
			if o.Resource == key.Locations && !placement.Shown(row, e.rights.space) {
				return compared < maxCompared
			}
			return yield(strings.TrimPrefix(row.Key, prefix)) && compared < maxCompared
		})
	})
	if near != "" {
		err.ErrStatus.Message += fmt.Sprintf("; did you mean %q?", near)
	}
	return err
}
