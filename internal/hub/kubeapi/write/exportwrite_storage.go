package write

import (
	"cmp"
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/protocol/key"
)

// through returns what handlers need to serve a resource in an export view.
func (r *resource) through(w *exportRequest) served {
	s := served{kind: r.kind, scopes: r.scopes}
	if w.wide() {
		s.scopes = plainScopes(r.scopes)
	}
	s.objects = exportObjects{exportStorage{r.objects, w, (*resource).main}}
	if r.status != nil {
		s.status = exportStorage{r.status, w, (*resource).statuses}
	}
	if r.scale != nil {
		s.scale = exportStorage{r.scale, w, (*resource).scales}
	}
	return s
}

func (r *resource) main() rest.Patcher { return r.objects }

func (r *resource) statuses() rest.Patcher {
	if r.status == nil {
		return nil
	}
	return r.status
}

func (r *resource) scales() rest.Patcher {
	if r.scale == nil {
		return nil
	}
	return r.scale
}

// exportStorage writes the objects of an export view, or their subresource.
type exportStorage struct {
	// Patcher is used only for New.
	rest.Patcher
	*exportRequest
	// storage returns the storage of a space.
	storage func(*resource) rest.Patcher
}

// open returns the storage of the space in a name.
func (s exportStorage) open(ctx context.Context, name string) (context.Context, *exportWrite, rest.Patcher, error) {
	ctx, p, err := s.enter(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	storage := s.storage(p.in)
	if storage == nil {
		return nil, nil, nil, s.notFound(name)
	}
	return ctx, p, storage, nil
}

// Get implements rest.Getter.
func (s exportStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	ctx, p, storage, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	obj, err := storage.Get(ctx, p.name, options)
	return p.answer(obj, err)
}

// Update implements rest.Updater.
func (s exportStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	in, p, storage, err := s.open(ctx, name)
	if err != nil {
		return nil, false, err
	}
	// Validation uses the context of the original request.
	creates := func(_ context.Context, obj runtime.Object) error { return p.creates(ctx, obj, create) }
	updates := func(_ context.Context, obj, old runtime.Object) error { return p.updates(ctx, obj, old, update) }
	obj, created, err := storage.Update(in, p.name, narrowed{info, p, ctx}, creates, updates, forceCreate, options)
	obj, err = p.answer(obj, err)
	return obj, created, err
}

// narrowed is an update by a client that uses the names of the export view.
type narrowed struct {
	rest.UpdatedObjectInfo
	*exportWrite
	outside context.Context
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (n narrowed) UpdatedObject(_ context.Context, old runtime.Object) (runtime.Object, error) {
	m, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	shown := old
	switch {
	case m.GetUID() == "":
		if err := n.admits(n.exportWrite, "create"); err != nil {
			return nil, err
		}
	case n.wide():
		shown = old.DeepCopyObject()
		if err := n.widen(shown); err != nil {
			return nil, err
		}
	}
	//nolint:contextcheck // handlers use the context of the original request
	obj, err := n.UpdatedObjectInfo.UpdatedObject(n.outside, shown)
	if err != nil {
		return nil, err
	}
	if err := n.narrow(obj, m); err != nil {
		return nil, err
	}
	return obj, n.asOf(obj, m)
}

// asOf sets the resourceVersion of an update to the stored revision, if the client has seen the stored
// version. A write of another object can move an object into the view; a watch then sends the object
// with the revision of that write, which is later than the stored one.
func (p *exportWrite) asOf(obj runtime.Object, stored metav1.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if p.seen(m.GetResourceVersion(), stored.GetResourceVersion()) {
		m.SetResourceVersion(stored.GetResourceVersion())
	}
	return nil
}

// seen reports whether the revision that a client names is at or after the stored one.
func (p *exportWrite) seen(version, stored string) bool {
	named, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return false // without a version, or handlers report the invalid one
	}
	written, err := strconv.ParseInt(stored, 10, 64)
	return err == nil && written > 0 && written <= named && named <= p.server.config.Table.Rev()
}

// exportObjects writes the objects of a kind in an export view.
type exportObjects struct{ exportStorage }

var _ objectStorage = exportObjects{}

// objects returns the storage of objects in the space.
func (p *exportWrite) objects() objectStorage { return p.in.objects }

// Create implements rest.Creater. It does not change obj, because the create may be retried.
func (s exportObjects) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	obj = obj.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(m.GetName(), m.GetGenerateName())
	if s.wide() && !s.kind.Namespaced {
		if _, ok := s.names().Split(false, "", name); !ok || name == "" {
			return nil, apierrors.NewInvalid(s.kind.GVK.GroupKind(), name, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name,
				"must begin with the name of a space and --")})
		}
	}
	in, p, err := s.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := p.narrow(obj, nil); err != nil {
		return nil, err
	}
	validates := func(_ context.Context, obj runtime.Object) error { return p.creates(ctx, obj, validate) }
	out, err := p.objects().Create(in, obj, validates, options)
	return p.answer(out, err)
}

// Delete implements rest.GracefulDeleter.
func (s exportObjects) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	in, p, err := s.enter(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if options, err = s.deletes(in, p, options); err != nil {
		return nil, false, err
	}
	validates := func(_ context.Context, obj runtime.Object) error { return validate(ctx, obj) }
	obj, gone, err := p.objects().Delete(in, p.name, validates, options)
	obj, err = p.answer(obj, err)
	return obj, gone, err
}

// deletes returns the options with the stored revision as precondition, see asOf.
func (s exportObjects) deletes(ctx context.Context, p *exportWrite, options *metav1.DeleteOptions) (*metav1.DeleteOptions, error) {
	if options == nil || options.Preconditions == nil || options.Preconditions.ResourceVersion == nil {
		return options, nil
	}
	stored, err := p.objects().Get(ctx, p.name, &metav1.GetOptions{})
	if err != nil {
		return nil, p.rename(err)
	}
	m, err := meta.Accessor(stored)
	if err != nil {
		return nil, err
	}
	if version := m.GetResourceVersion(); p.seen(*options.Preconditions.ResourceVersion, version) {
		options = options.DeepCopy()
		options.Preconditions.ResourceVersion = &version
	}
	return options, nil
}

// DeleteCollection implements rest.CollectionDeleter, in one space after the other.
func (s exportObjects) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *internalversion.ListOptions) (runtime.Object, error) {
	validates := func(_ context.Context, obj runtime.Object) error { return validate(ctx, obj) }
	if !s.wide() || s.kind.Namespaced {
		in, p, err := s.enter(ctx, "")
		if err != nil {
			return nil, err
		}
		return p.deleteCollection(in, validates, options, listOptions)
	}
	if listOptions.Limit > 0 || listOptions.Continue != "" {
		return nil, apierrors.NewBadRequest("the objects of all spaces are not deleted in pages")
	}
	var all []runtime.Object
	list := s.newList()
	for _, space := range s.server.config.Exports.Consumers(s.ID) {
		in, p, err := s.into(ctx, &exportWrite{exportRequest: s.exportRequest, space: space})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			continue // the provider may not delete in this space, and does not learn of it
		}
		if err != nil {
			return nil, err
		}
		deleted, err := p.deleteCollection(in, validates, options, listOptions)
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(deleted)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return list, meta.SetList(list, all)
}

func (w *exportRequest) newList() runtime.Object { return w.kind.NewList() }

// deleteCollection deletes those objects of a space that are in the export view.
func (p *exportWrite) deleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *internalversion.ListOptions) (runtime.Object, error) {
	listOptions = listOptions.DeepCopy()
	if listOptions.FieldSelector != nil && p.wide() {
		var err error
		if listOptions.FieldSelector, err = listOptions.FieldSelector.Transform(p.narrowField); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	deleted, err := p.objects().DeleteCollection(ctx, validate, options.DeepCopy(), listOptions)
	if err != nil {
		return nil, p.rename(err)
	}
	list, err := meta.ListAccessor(deleted)
	if err != nil {
		return nil, err
	}
	// Both would reveal objects outside of the view.
	list.SetContinue("")
	list.SetRemainingItemCount(nil)
	if !p.wide() {
		return deleted, nil
	}
	return deleted, meta.EachListItem(deleted, p.widen)
}

// narrowField changes a selector by wide names to one by names in the space. A selector of another
// space becomes one that nothing matches.
func (p *exportWrite) narrowField(name, value string) (string, string, error) {
	var c key.Called
	var ok bool
	switch {
	case p.kind.Namespaced && name == "metadata.namespace":
		c, ok = p.names().Split(true, value, "")
		value = c.Namespace
	case !p.kind.Namespaced && name == "metadata.name":
		c, ok = p.names().Split(false, "", value)
		value = c.Name
	default:
		return name, value, nil
	}
	if !ok || c.Space != p.space {
		value = ""
	}
	return name, value, nil
}

var _ fields.TransformFunc = (*exportWrite)(nil).narrowField
