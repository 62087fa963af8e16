package write

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// guarded is storage that contains only the objects of an export view, for requests by that view.
// Other requests use all of it. The transaction that writes an object checks its current version.
type guarded struct {
	storage.Interface
	server *Server
	kind   *kinds.Kind
}

// Create implements storage.Interface.
func (g guarded) Create(ctx context.Context, k string, obj, out runtime.Object, ttl uint64) error {
	err := g.Interface.Create(ctx, k, obj, out, ttl)
	p := exportWriteFrom(ctx)
	if p == nil || !storage.IsExist(err) {
		return err
	}
	there := p.in.kind.New()
	if g.Interface.Get(ctx, k, storage.GetOptions{}, there) != nil {
		return err // the object was deleted meanwhile, or can't be read
	}
	switch shown, failed := g.shows(ctx, p, k, there); {
	case failed != nil:
		return failed
	case !shown:
		return p.elsewhere()
	}
	return err
}

// elsewhere returns the error for a name that is used outside of the view.
func (p *exportWrite) elsewhere() error {
	return apierrors.NewForbidden(p.kind.GVR.GroupResource(), p.called.name, errors.New("nothing can be created here under this name"))
}

// Get implements storage.Interface.
func (g guarded) Get(ctx context.Context, k string, opts storage.GetOptions, out runtime.Object) error {
	err := g.Interface.Get(ctx, k, opts, out)
	p := exportWriteFrom(ctx)
	if p == nil || err != nil {
		return err
	}
	if m, err := meta.Accessor(out); err != nil || m.GetUID() == "" {
		return err // the object does not exist
	}
	switch shown, err := g.shows(ctx, p, k, out); {
	case err != nil || shown:
		return err
	case opts.IgnoreNotFound: // a dry run of an update that may create the object
		return p.elsewhere()
	}
	return storage.NewKeyNotFoundError(k, 0)
}

// GetList implements storage.Interface.
func (g guarded) GetList(ctx context.Context, k string, opts storage.ListOptions, list runtime.Object) error {
	err := g.Interface.GetList(ctx, k, opts, list)
	p := exportWriteFrom(ctx)
	if p == nil || err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	kept := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		m, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		o := key.Object{Space: p.space, Identity: key.Identity{Resource: p.kind.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}}
		shown, err := g.shows(ctx, p, g.server.etcdKey(o), item)
		if err != nil {
			return err
		}
		if shown {
			kept = append(kept, item)
		}
	}
	return meta.SetList(list, kept)
}

// GuaranteedUpdate implements storage.Interface. It checks preconditions after the view, because
// their errors would reveal objects outside of it.
func (g guarded) GuaranteedUpdate(ctx context.Context, k string, out runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	p, write := exportWriteFrom(ctx), update
	update = func(existing runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj, ttl, err := write(existing, res)
		if err == nil && res.ResourceVersion != 0 { // deletions, too, which use no strategy
			err = g.server.keepValues(ctx, g.kind, g.path(k), obj, existing)
		}
		return obj, ttl, err
	}
	if p == nil {
		return g.Interface.GuaranteedUpdate(ctx, k, out, ignoreNotFound, preconditions, update, cached)
	}
	checked := func(existing runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if res.ResourceVersion != 0 {
			switch shown, err := g.shows(ctx, p, k, existing); {
			case err != nil:
				return nil, nil, err
			case !shown && ignoreNotFound:
				return nil, nil, p.elsewhere()
			case !shown:
				return nil, nil, storage.NewKeyNotFoundError(k, 0)
			}
		}
		if err := preconditions.Check(k, existing); err != nil {
			return nil, nil, err
		}
		return update(existing, res)
	}
	return g.Interface.GuaranteedUpdate(ctx, k, out, ignoreNotFound, nil, checked, nil)
}

// Delete implements storage.Interface.
func (g guarded) Delete(ctx context.Context, k string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	p := exportWriteFrom(ctx)
	if p == nil {
		return g.Interface.Delete(ctx, k, out, preconditions, validate, cached, opts)
	}
	checked := func(ctx context.Context, existing runtime.Object) error {
		switch shown, err := g.shows(ctx, p, k, existing); {
		case err != nil:
			return err
		case !shown:
			return storage.NewKeyNotFoundError(k, 0)
		}
		if err := preconditions.Check(k, existing); err != nil {
			return err
		}
		return validate(ctx, existing)
	}
	return g.Interface.Delete(ctx, k, out, nil, checked, nil, opts)
}

// shows reports whether a stored object is in the export view.
func (g guarded) shows(ctx context.Context, p *exportWrite, k string, stored runtime.Object) (bool, error) {
	row, err := g.server.rowOf(ctx, g.path(k), stored)
	return err == nil && row.IsShownIn(p.ID), err
}

// path returns the table's key of a stored object.
func (g guarded) path(k string) string { return strings.TrimPrefix(k, g.server.config.Prefix) }

// claim sets the value by which a slice selects an object that is created in the slice, unless the
// object has a value.
func (p *exportWrite) claim(obj runtime.Object) {
	if !p.ID.View || p.ID.Value == "" {
		return
	}
	for _, k := range p.keys() {
		if valueOf(k.Split, obj) != "" || k.Claim != nil && k.Field {
			continue
		}
		if k.Field {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				// If it can't be set, the object has another type there, and the schema refuses it.
				_ = setValue(k.Split, u, p.ID.Value)
			}
			continue
		}
		if m, err := meta.Accessor(obj); err == nil {
			labels := map[string]string{}
			maps.Copy(labels, m.GetLabels())
			labels[k.Split.Label] = p.ID.Value
			m.SetLabels(labels)
		}
	}
}

// keys returns the keys of the APIExportView of the request.
func (p *exportWrite) keys() []exports.Key {
	view := p.ID
	view.Value = ""
	return slices.DeleteFunc(p.server.config.Exports.Keys(p.space, p.kind.Resource), func(k exports.Key) bool { return k.View != view })
}

// validateInView refuses a write by an export view that would put the object outside of it.
func validateInView(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if p := exportWriteFrom(ctx); p != nil {
		return p.validate(obj, old)
	}
	return nil
}

// validate refuses a write that would put an object outside of the export view, or remove it from
// another slice. old is nil for a new object. In the rest of a view, an object without a value may
// be given one.
func (p *exportWrite) validate(obj, old runtime.Object) field.ErrorList {
	state := p.server.config.Table.Snapshot()
	views, err := p.viewsOf(state, obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	if slices.Contains(views, p.ID) {
		return p.validateOtherSlices(state, obj, old, views)
	}
	for _, k := range p.keys() {
		switch value := valueOf(k.Split, obj); {
		case k.Claim != nil && k.Field, value == "" && p.ID.Value == "":
		case old != nil && p.ID.Value == "" && valueOf(k.Split, old) == "" && slicesItself(k, obj):
			return p.validateOtherSlices(state, obj, old, views) // the object gets its first value
		case k.ExportView(value) == p.ID:
		case p.ID.Value == "":
			return field.ErrorList{field.Forbidden(splitPath(k.Split), fmt.Sprintf("%q has a slice of its own: this is the rest of APIExportView %q", value, p.ID.Name))}
		default:
			return field.ErrorList{field.Forbidden(splitPath(k.Split), fmt.Sprintf("must be %q: this is its slice of APIExportView %q", p.ID.Value, p.ID.Name))}
		}
	}
	if !p.ID.View || !slices.ContainsFunc(views, func(f key.ExportView) bool { f.Value = p.ID.Value; return f == p.ID }) {
		return field.ErrorList{field.Forbidden(field.NewPath("metadata", "labels"), fmt.Sprintf("with these the claim of %s does not select it", p.kind.GVR.GroupResource()))}
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "ownerReferences"), "what owns it or refers to it must be in this slice")}
}

// viewsOf returns the export views that would contain an object in a state.
func (p *exportWrite) viewsOf(state table.Reader, obj runtime.Object) ([]key.ExportView, error) {
	e, err := p.entryOf(obj)
	if err != nil {
		return nil, err
	}
	return p.server.config.Exports.ExportViews(state, e), nil
}

// entryOf returns an object as it would be stored.
func (p *exportWrite) entryOf(obj runtime.Object) (*table.Entry, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := p.in.kind.StorageCodec.Encode(obj, &b); err != nil {
		return nil, fmt.Errorf("encode an object: %w", err)
	}
	o := key.Object{Space: p.space, Identity: key.Identity{Resource: p.kind.Resource, Name: m.GetName()}}
	if p.kind.Namespaced {
		o.Namespace = p.namespace
	}
	return table.NewEntry(o.Key(), b.Bytes(), 0, 0), nil
}
