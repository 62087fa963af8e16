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

// through is what handlers are given of a resource that is written by way of a shelf.
func (r *resource) through(w *way) served {
	s := served{kind: r.kind, scopes: r.scopes}
	if w.wide() {
		s.scopes = plainScopes(r.scopes)
	}
	s.objects = shelvedObjects{shelved{r.objects, w, (*resource).main}}
	if r.status != nil {
		s.status = shelved{r.status, w, (*resource).statuses}
	}
	if r.scale != nil {
		s.scale = shelved{r.scale, w, (*resource).scales}
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

// shelved writes what is on a shelf, or a subresource of that.
type shelved struct {
	// Patcher makes new objects, and does nothing else.
	rest.Patcher
	*way
	// storage is what writes in a space.
	storage func(*resource) rest.Patcher
}

// open finds what writes in the space of a name.
func (s shelved) open(ctx context.Context, name string) (context.Context, *passage, rest.Patcher, error) {
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
func (s shelved) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	ctx, p, storage, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	obj, err := storage.Get(ctx, p.name, options)
	return p.answer(obj, err)
}

// Update implements rest.Updater.
func (s shelved) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	in, p, storage, err := s.open(ctx, name)
	if err != nil {
		return nil, false, err
	}
	// What the handler asks of an object is about the request as it came.
	creates := func(_ context.Context, obj runtime.Object) error { return p.creates(ctx, obj, create) }
	updates := func(_ context.Context, obj, old runtime.Object) error { return p.updates(ctx, obj, old, update) }
	obj, created, err := storage.Update(in, p.name, narrowed{info, p, ctx}, creates, updates, forceCreate, options)
	obj, err = p.answer(obj, err)
	return obj, created, err
}

// narrowed is an update by a client that knows the object as it is on the shelf.
type narrowed struct {
	rest.UpdatedObjectInfo
	*passage
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
		if err := n.admits(n.passage, "create"); err != nil {
			return nil, err
		}
	case n.wide():
		shown = old.DeepCopyObject()
		if err := n.widen(shown); err != nil {
			return nil, err
		}
	}
	//nolint:contextcheck // what the handlers do is about the request as it came
	obj, err := n.UpdatedObjectInfo.UpdatedObject(n.outside, shown)
	if err != nil {
		return nil, err
	}
	if err := n.narrow(obj, m); err != nil {
		return nil, err
	}
	return obj, n.asOf(obj, m)
}

// asOf makes an object one of the revision that is stored, if the client has seen that: what
// comes onto a shelf by another's write is told with the revision of that.
func (p *passage) asOf(obj runtime.Object, stored metav1.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if p.seen(m.GetResourceVersion(), stored.GetResourceVersion()) {
		m.SetResourceVersion(stored.GetResourceVersion())
	}
	return nil
}

// seen says whether a revision that a client names is one at which what is stored was there.
func (p *passage) seen(version, stored string) bool {
	at, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return false // there is none, or the handlers say what is wrong with it
	}
	written, err := strconv.ParseInt(stored, 10, 64)
	return err == nil && written > 0 && written <= at && at <= p.server.config.Table.Rev()
}

// shelvedObjects writes the objects of a kind that are on a shelf.
type shelvedObjects struct{ shelved }

var _ objectStorage = shelvedObjects{}

// objects are those of a space.
func (p *passage) objects() objectStorage { return p.in.objects }

// Create implements rest.Creater. The object is left as it is, since it may be created again.
func (s shelvedObjects) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
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
func (s shelvedObjects) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
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

// deletes are the options by the revision that is stored, as asOf has it.
func (s shelvedObjects) deletes(ctx context.Context, p *passage, options *metav1.DeleteOptions) (*metav1.DeleteOptions, error) {
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
func (s shelvedObjects) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *internalversion.ListOptions) (runtime.Object, error) {
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
	for _, space := range s.server.config.Exports.Consumers(s.Shelf) {
		in, p, err := s.into(ctx, &passage{way: s.way, space: space})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			continue // what the space has not let the provider do is not done, and nothing is shown of it
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

func (w *way) newList() runtime.Object { return w.kind.NewList() }

// deleteCollection deletes those objects of a space that are on the shelf.
func (p *passage) deleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *internalversion.ListOptions) (runtime.Object, error) {
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
	// They would tell of what is not on the shelf.
	list.SetContinue("")
	list.SetRemainingItemCount(nil)
	if !p.wide() {
		return deleted, nil
	}
	return deleted, meta.EachListItem(deleted, p.widen)
}

// narrowField makes a selector by wide names one by those in the space: one that nothing has
// if it is of another space.
func (p *passage) narrowField(name, value string) (string, string, error) {
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

var _ fields.TransformFunc = (*passage)(nil).narrowField
