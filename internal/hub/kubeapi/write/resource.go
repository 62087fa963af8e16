package write

import (
	"cmp"
	"context"
	"fmt"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/textual"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/protocol/key"
)

// resource has the storage and scopes of one kind, for all spaces.
type resource struct {
	kind    *kinds.Kind
	objects objectStorage
	status  *statusStorage
	scale   *scaleStorage
	scopes  map[string]*handlers.RequestScope
	// plain is the fast path for creates, or nil.
	plain *plain
}

// objectStorage is what handlers of objects need.
type objectStorage interface {
	rest.Creater
	rest.Patcher
	rest.GracefulDeleter
	rest.CollectionDeleter
}

// resourceOf returns the resource of a kind, and creates it on the first use.
func (s *Server) resourceOf(kind *kinds.Kind) (*resource, error) {
	if kind.Custom != nil {
		if r, ok := s.customs.Get(kind); ok {
			return r.(*resource), nil
		}
		r, err := s.newResource(kind)
		if err == nil {
			s.customs.Add(kind, r)
		}
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.builtins[kind]; ok {
		return r, nil
	}
	r, err := s.newResource(kind)
	if err == nil {
		s.builtins[kind] = r
	}
	return r, err
}

func (s *Server) newResource(kind *kinds.Kind) (*resource, error) {
	r := &resource{kind: kind, scopes: map[string]*handlers.RequestScope{}}
	for _, sub := range []string{"", kinds.StatusSubresource, kinds.ScaleSubresource} {
		scope := kind.Scope(sub)
		if scope == nil {
			continue
		}
		if s.config.Authorizer != nil {
			scope.Authorizer = s.config.Authorizer
		}
		if kind.Resource == key.Secrets {
			scope.Serializer = changing{scope.Serializer, foldStringData}
			scope.Defaulter = foldingDefaulter{}
		}
		scope.Serializer = requestbody.Serializer{NegotiatedSerializer: scope.Serializer}
		r.scopes[sub] = scope
	}
	scope := r.scopes[""]
	if scope == nil {
		return nil, fmt.Errorf("kind %s: has no scope", kind.GVK)
	}
	main, status := newStrategies(s).forKind(kind, scope.Typer)
	store, err := s.newStore(kind, universal{main, s, kind})
	if err != nil {
		return nil, err
	}
	r.objects = s.storageOf(kind, &objects{Store: store, server: s, kind: kind})
	r.plain = s.plainOf(kind, main, r)
	if kind.HasStatus {
		statusStore := *store
		statusStore.UpdateStrategy = universal{status, s, kind}
		r.status = &statusStorage{store: &statusStore, server: s, kind: kind}
	}
	if kind.Scale != nil {
		r.scale = &scaleStorage{kind: kind, store: store}
	}
	return r, nil
}

// newStore returns the generic store of a kind for all spaces.
func (s *Server) newStore(kind *kinds.Kind, strategy rest.RESTCreateUpdateStrategy) (*genericregistry.Store, error) {
	codec := boundedCodec{Codec: kind.StorageCodec, limit: s.config.ObjectBytes}
	versioner := storage.APIObjectVersioner{}
	resource := kind.GVR.GroupResource()
	var backend storage.Interface
	backend, err := etcd3.New(s.client, nil, codec, kind.New, kind.NewList, "/", path.Join(s.config.Prefix, key.Objects.Prefix()),
		resource, identity.NewEncryptCheckTransformer(), etcd3.NewDefaultLeaseManagerConfig(), countingDecoder{etcd3.NewDefaultDecoder(codec, versioner)}, versioner)
	if err != nil {
		return nil, fmt.Errorf("make the storage of %s: %w", kind.GVK, err)
	}
	if kind.Resource == key.CRDs {
		backend = namedStorage{backend, definitionWrites{s}}
	}
	store := &genericregistry.Store{
		NewFunc:                   kind.New,
		NewListFunc:               kind.NewList,
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: schema.GroupResource{Group: resource.Group, Resource: kind.Singular},
		KeyFunc:                   keyFunc(s.config.Prefix, kind),
		KeyRootFunc:               keyRootFunc(s.config.Prefix, kind),
		ObjectNameFunc:            objectName,
		PredicateFunc: func(l labels.Selector, f fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: l, Field: f, GetAttrs: kind.SelectableFields}
		},
		DeleteCollectionWorkers: deleters,
		ReturnDeletedObject:     kind.Custom == nil && returnsDeleted(kind.Resource),

		CreateStrategy: strategy,
		UpdateStrategy: strategy,
		DeleteStrategy: strategy,
		BeginCreate:    beginCreate,
		TableConvertor: kind.Columns,
		Storage:        genericregistry.DryRunnableStorage{Storage: backend, Codec: codec},
	}
	store.Storage.Storage = guarded{store.Storage.Storage, s, kind}
	if goesInSteps(kind.Resource) {
		store.DeleteStrategy, store.Storage.Storage = steps{strategy}, lastSteps{store.Storage.Storage}
	}
	if placement.Never(kind.Resource) == "" {
		store.DeleteStrategy = removal{store.DeleteStrategy, s.config.Table, kind}
	}
	if kind.Resource == eventResource {
		ttl := uint64(s.config.EventTTL.Seconds())
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return ttl, nil }
	}
	return store, nil
}

var (
	eventResource = key.Resource{Group: key.CoreGroup, Resource: "events"}
)

func objectName(obj runtime.Object) (string, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", err
	}
	return m.GetName(), nil
}

// beginCreate refuses an object whose owners are missing, before any other error, and also in dry
// runs.
func beginCreate(ctx context.Context, _ runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
	if a := admissionFrom(ctx); a != nil {
		if err := a.check(ctx); err != nil {
			return nil, err
		}
	}
	return func(context.Context, bool) {}, nil
}

// objects writes the objects of one kind.
type objects struct {
	*genericregistry.Store
	server *Server
	kind   *kinds.Kind
}

// admit adds the owners of the object that a request may create to its context.
func (o *objects) admit(ctx context.Context, name string) (context.Context, error) {
	space, ok := SpaceFromContext(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("request has no space")
	}
	return o.server.admitting(ctx, o.server.owners(space, o.kind, request.NamespaceValue(ctx), name)), nil
}

func (o *objects) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if err := checkDefaults(o.kind, obj, nil); err != nil {
		return nil, err
	}
	// Errors name an object without a name by its generateName.
	if ctx, err = o.admit(ctx, cmp.Or(m.GetName(), m.GetGenerateName())); err != nil {
		return nil, err
	}
	out, err := o.Store.Create(ctx, obj, validate, options)
	return out, o.preview(ctx, out, err, options.DryRun)
}

func (o *objects) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	ctx, err := o.admit(ctx, name)
	if err != nil {
		return nil, false, err
	}
	out, created, err := o.Store.Update(ctx, name, withDefaults(o.kind, info), create, update, forceCreate, options)
	return out, created, o.preview(ctx, out, err, options.DryRun)
}

// Delete deletes an object, or sets its deletion timestamp.
func (o *objects) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (obj runtime.Object, gone bool, err error) {
	err = inSteps(textual.With(ctx, o.kind), o.kind.Resource, func(ctx context.Context) error {
		obj, gone, err = o.Store.Delete(ctx, name, validate, options)
		return err
	})
	if err == nil {
		o.warn(ctx, name, nil, options.DryRun)
	}
	return obj, gone, err
}

// DeleteCollection returns the deleted objects. As in all lists, items of built-in kinds have no kind.
func (o *objects) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *internalversion.ListOptions) (deleted runtime.Object, err error) {
	ctx = textual.With(countingDefaults(ctx), o.kind)
	err = inSteps(ctx, o.kind.Resource, func(ctx context.Context) error {
		deleted, err = o.Store.DeleteCollection(ctx, validate, options, listOptions)
		return err
	})
	if err != nil || o.kind.Custom != nil {
		return deleted, err
	}
	return deleted, meta.EachListItem(deleted, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return nil
	})
}

// statusStorage writes the status of the objects of one kind.
type statusStorage struct {
	store  *genericregistry.Store
	server *Server
	kind   *kinds.Kind
}

var _ rest.Patcher = (*statusStorage)(nil)

func (s *statusStorage) New() runtime.Object { return s.store.New() }

func (s *statusStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

func (s *statusStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	ctx, info = textual.With(ctx, s.kind), withDefaults(s.kind, info)
	var out runtime.Object
	var created bool
	err := definitionWrites{s.server}.write(ctx, s.kind.Resource, func(ctx context.Context) (err error) {
		out, created, err = s.store.Update(ctx, name, info, create, update, false, options)
		return err
	})
	if err == nil {
		err = definitionWrites{s.server}.previewNames(ctx, out, options.DryRun)
	}
	return out, created, err
}

// storageOf wraps the storage of kinds that own other objects, or are limited in number.
func (s *Server) storageOf(kind *kinds.Kind, o *objects) objectStorage {
	switch kind.Resource {
	case key.Spaces, key.Namespaces, key.CRDs, key.APIBindings:
		return &containers{objects: o}
	case key.APIExportViews:
		return counted{o}
	}
	return o
}
