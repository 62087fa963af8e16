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

// guarded is storage in which only what is on a shelf exists for a request by way of it. For
// others it is as it is. Each object is judged as it is in the transaction that is to write it.
type guarded struct {
	storage.Interface
	server *Server
	kind   *kinds.Kind
}

// Create implements storage.Interface.
func (g guarded) Create(ctx context.Context, k string, obj, out runtime.Object, ttl uint64) error {
	err := g.Interface.Create(ctx, k, obj, out, ttl)
	p := passageFrom(ctx)
	if p == nil || !storage.IsExist(err) {
		return err
	}
	there := p.in.kind.New()
	if g.Interface.Get(ctx, k, storage.GetOptions{}, there) != nil {
		return err // it went meanwhile, or nobody knows
	}
	switch shown, failed := g.shows(ctx, p, k, there); {
	case failed != nil:
		return failed
	case !shown:
		return p.elsewhere()
	}
	return err
}

// elsewhere is the answer where a name is another's.
func (p *passage) elsewhere() error {
	return apierrors.NewForbidden(p.kind.GVR.GroupResource(), p.called.name, errors.New("nothing can be created here under this name"))
}

// Get implements storage.Interface.
func (g guarded) Get(ctx context.Context, k string, opts storage.GetOptions, out runtime.Object) error {
	err := g.Interface.Get(ctx, k, opts, out)
	p := passageFrom(ctx)
	if p == nil || err != nil {
		return err
	}
	if m, err := meta.Accessor(out); err != nil || m.GetUID() == "" {
		return err // there is nothing
	}
	switch shown, err := g.shows(ctx, p, k, out); {
	case err != nil || shown:
		return err
	case opts.IgnoreNotFound: // a dry run of what may create it
		return p.elsewhere()
	}
	return storage.NewKeyNotFoundError(k, 0)
}

// GetList implements storage.Interface.
func (g guarded) GetList(ctx context.Context, k string, opts storage.ListOptions, list runtime.Object) error {
	err := g.Interface.GetList(ctx, k, opts, list)
	p := passageFrom(ctx)
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

// GuaranteedUpdate implements storage.Interface. Preconditions are looked at after the shelf:
// they would tell of what is not on it.
func (g guarded) GuaranteedUpdate(ctx context.Context, k string, out runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	p, write := passageFrom(ctx), update
	update = func(existing runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		obj, ttl, err := write(existing, res)
		if err == nil && res.ResourceVersion != 0 { // also where no strategy is asked, as in deletions
			err = g.server.keepValues(ctx, g.kind, g.path(k), obj, existing)
		}
		return obj, ttl, err
	}
	if p == nil {
		return g.Interface.GuaranteedUpdate(ctx, k, out, ignoreNotFound, preconditions, update, cached)
	}
	judged := func(existing runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
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
	return g.Interface.GuaranteedUpdate(ctx, k, out, ignoreNotFound, nil, judged, nil)
}

// Delete implements storage.Interface.
func (g guarded) Delete(ctx context.Context, k string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	p := passageFrom(ctx)
	if p == nil {
		return g.Interface.Delete(ctx, k, out, preconditions, validate, cached, opts)
	}
	judged := func(ctx context.Context, existing runtime.Object) error {
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
	return g.Interface.Delete(ctx, k, out, nil, judged, nil, opts)
}

// shows says whether what is stored is on the shelf.
func (g guarded) shows(ctx context.Context, p *passage, k string, stored runtime.Object) (bool, error) {
	row, err := g.server.rowOf(ctx, g.path(k), stored)
	return err == nil && row.IsShownIn(p.Shelf), err
}

// path is the table's key of what is stored.
func (g guarded) path(k string) string { return strings.TrimPrefix(k, g.server.config.Prefix) }

// claim gives an object that is created by way of a slice what makes it one of the slice, if
// it does not say itself what it is.
func (p *passage) claim(obj runtime.Object) {
	if !p.Shelf.View || p.Shelf.Value == "" {
		return
	}
	for _, k := range p.keys() {
		if valueOf(k.Split, obj) != "" || k.Claim != nil && k.Field {
			continue
		}
		if k.Field {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				// Where it can't be set the schema has something else, and refuses the object.
				_ = setValue(k.Split, u, p.Shelf.Value)
			}
			continue
		}
		if m, err := meta.Accessor(obj); err == nil {
			labels := map[string]string{}
			maps.Copy(labels, m.GetLabels())
			labels[k.Split.Label] = p.Shelf.Value
			m.SetLabels(labels)
		}
	}
}

// keys are those of the view whose shelf it is.
func (p *passage) keys() []exports.Key {
	view := p.Shelf
	view.Value = ""
	return slices.DeleteFunc(p.server.config.Exports.Keys(p.space, p.kind.Resource), func(k exports.Key) bool { return k.View != view })
}

// judged refuses a write by way of a shelf by which an object would not be on it.
func judged(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if p := passageFrom(ctx); p != nil {
		return p.judge(obj, old)
	}
	return nil
}

// judge refuses a write by which an object would not be on the shelf, or no longer in another
// slice. old is what there is; nil if there is nothing. What has no value yet may be given one
// by way of the rest.
func (p *passage) judge(obj, old runtime.Object) field.ErrorList {
	state := p.server.config.Table.Snapshot()
	on, err := p.shelvesOf(state, obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	if slices.Contains(on, p.Shelf) {
		return p.takes(state, obj, old, on)
	}
	for _, k := range p.keys() {
		switch value := valueOf(k.Split, obj); {
		case k.Claim != nil && k.Field, value == "" && p.Shelf.Value == "":
		case old != nil && p.Shelf.Value == "" && valueOf(k.Split, old) == "" && slicesItself(k, obj):
			return p.takes(state, obj, old, on) // it is given to a slice
		case k.Shelf(value) == p.Shelf:
		case p.Shelf.Value == "":
			return field.ErrorList{field.Forbidden(splitPath(k.Split), fmt.Sprintf("%q has a slice of its own: this is the rest of APIExportView %q", value, p.Shelf.Name))}
		default:
			return field.ErrorList{field.Forbidden(splitPath(k.Split), fmt.Sprintf("must be %q: this is its slice of APIExportView %q", p.Shelf.Value, p.Shelf.Name))}
		}
	}
	if !p.Shelf.View || !slices.ContainsFunc(on, func(f key.Shelf) bool { f.Value = p.Shelf.Value; return f == p.Shelf }) {
		return field.ErrorList{field.Forbidden(field.NewPath("metadata", "labels"), fmt.Sprintf("with these the claim of %s does not select it", p.kind.GVR.GroupResource()))}
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "ownerReferences"), "what owns it or refers to it must be in this slice")}
}

// shelvesOf are the shelves that an object would be on in a state.
func (p *passage) shelvesOf(state table.Reader, obj runtime.Object) ([]key.Shelf, error) {
	e, err := p.entryOf(obj)
	if err != nil {
		return nil, err
	}
	return p.server.config.Exports.On(state, e), nil
}

// entryOf is an object as it would be stored.
func (p *passage) entryOf(obj runtime.Object) (*table.Entry, error) {
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
