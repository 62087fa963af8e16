package write

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kubeapi/textual"
	"orrery.dev/orrery/internal/protocol/key"
)

// DefaultNamespace is the namespace that every space starts with; it can't be deleted.
const DefaultNamespace = "default"

// finalizerOf returns the finalizer of an object that owns others.
func finalizerOf(r key.Resource) string {
	if r == key.CRDs {
		return apiextensionsv1.CustomResourceCleanupFinalizer
	}
	return v1alpha1.ContentFinalizer
}

// containers writes the objects that own other objects: Spaces, Namespaces, CRDs and APIBindings. A
// deletion only sets the deletion timestamp; the Finish functions delete the content.
type containers struct{ *objects }

var _ objectStorage = (*containers)(nil)

func (c *containers) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	var out runtime.Object
	err := definitionWrites{c.server}.write(ctx, c.kind.Resource, func(ctx context.Context) (err error) {
		writes := obj
		if c.kind.Resource == key.APIBindings { // the write may be retried
			writes = obj.DeepCopyObject()
		}
		out, err = c.objects.Create(ctx, writes, validate, options)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := (definitionWrites{c.server}).previewNames(ctx, out, options.DryRun); err != nil {
		return nil, err
	}
	return out, c.created(ctx, out, options.DryRun)
}

func (c *containers) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (out runtime.Object, created bool, err error) {
	err = definitionWrites{c.server}.write(ctx, c.kind.Resource, func(ctx context.Context) (err error) {
		out, created, err = c.objects.Update(ctx, name, info, create, update, forceCreate, options)
		return err
	})
	if err == nil {
		err = definitionWrites{c.server}.previewNames(ctx, out, options.DryRun)
	}
	if err != nil || !created {
		return out, created, err
	}
	return out, created, c.created(ctx, out, options.DryRun)
}

// takesNames reports whether objects of a resource define other resources, which need names.
func takesNames(r key.Resource) bool { return r == key.CRDs || r == key.APIBindings }

// created completes a new space before the response of its creation.
func (c *containers) created(ctx context.Context, obj runtime.Object, dryRun []string) error {
	if c.kind.Resource != key.Spaces || dryrun.IsDryRun(dryRun) {
		return nil
	}
	name, err := objectName(obj)
	if err != nil {
		return err
	}
	return c.server.EnsureNamespace(ctx, key.Space(name), DefaultNamespace)
}

// Delete marks the object as being deleted and keeps it until its content is gone.
func (c *containers) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if c.kind.Resource == key.Spaces && name == string(key.Root) || c.kind.Resource == key.Namespaces && name == DefaultNamespace {
		return nil, false, apierrors.NewForbidden(c.kind.GVR.GroupResource(), name, fmt.Errorf("this %s may not be deleted", c.kind.Singular))
	}
	k, err := c.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	preconditions := &storage.Preconditions{}
	if options.Preconditions != nil {
		preconditions.UID, preconditions.ResourceVersion = options.Preconditions.UID, options.Preconditions.ResourceVersion
	}
	out := c.NewFunc()
	remove := func(ctx context.Context, allowed func(runtime.Object) error) error {
		return c.Storage.GuaranteedUpdate(textual.With(ctx, c.kind), k, out, false, preconditions,
			storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
				if err := allowed(existing); err != nil {
					return nil, err
				}
				if err := validate(ctx, existing); err != nil {
					return nil, err
				}
				keepUntilRemoved(ctx, c.server.config.Table, c.kind, existing)
				return existing, c.mark(existing)
			}), dryrun.IsDryRun(options.DryRun), nil)
	}
	if p := exportWriteFrom(ctx); p != nil {
		err = p.withContent(ctx, name, remove)
	} else {
		err = remove(ctx, func(runtime.Object) error { return nil })
	}
	if err != nil {
		return nil, false, storageerrors.InterpretUpdateError(err, c.kind.GVR.GroupResource(), name)
	}
	return out, false, nil
}

// mark sets the deletion timestamp of an object. It is idempotent.
func (c *containers) mark(obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if isDeleting(m) {
		return nil
	}
	now, zero := metav1.NewTime(c.server.config.Now()), int64(0)
	m.SetDeletionTimestamp(&now)
	m.SetDeletionGracePeriodSeconds(&zero)
	if m.GetGeneration() > 0 {
		m.SetGeneration(m.GetGeneration() + 1)
	}
	if f := finalizerOf(c.kind.Resource); !slices.Contains(m.GetFinalizers(), f) {
		m.SetFinalizers(append(m.GetFinalizers(), f))
	}
	switch o := obj.(type) {
	case *corev1.Namespace:
		o.Status.Phase = corev1.NamespaceTerminating
	case *apiextensionsv1.CustomResourceDefinition:
		setCondition(o, now, apiextensionsv1.CustomResourceDefinitionCondition{
			Type:    apiextensionsv1.Terminating,
			Status:  apiextensionsv1.ConditionTrue,
			Reason:  "InstanceDeletionPending",
			Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
		})
	case *unstructured.Unstructured:
		unbinding(o, "the remaining objects of its kinds in the space are deleted first", now)
	}
	return nil
}

// DeleteCollection deletes CRDs and APIBindings one after the other. Kubernetes has no such
// request for namespaces, and spaces are too much to lose at once.
func (c *containers) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *internalversion.ListOptions) (runtime.Object, error) {
	if !takesNames(c.kind.Resource) {
		return nil, apierrors.NewMethodNotSupported(c.kind.GVR.GroupResource(), "deletecollection")
	}
	list, err := c.List(ctx, listOptions)
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		name, err := objectName(obj)
		if err != nil {
			return err
		}
		if _, _, err = c.Delete(ctx, name, validate, options.DeepCopy()); apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	return list, err
}

// kept is the strategy of objects that own others: once they are being deleted, a client
// can't remove the finalizer that keeps them until their content is gone.
type kept struct {
	rest.RESTCreateUpdateStrategy
	resource key.Resource
}

func (k kept) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	k.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	now, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	previous, err := meta.Accessor(old)
	if err != nil || !isDeleting(previous) {
		return
	}
	if f := finalizerOf(k.resource); slices.Contains(previous.GetFinalizers(), f) && !slices.Contains(now.GetFinalizers(), f) {
		now.SetFinalizers(append(now.GetFinalizers(), f))
	}
}

// namespaces is the strategy of Namespaces, which are Active from the start.
type namespaces struct{ inert }

func (n namespaces) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	n.inert.PrepareForCreate(ctx, obj)
	if ns, ok := obj.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

// named is the strategy of Spaces and Locations, whose names become segments of keys and
// paths.
type named struct {
	rest.RESTCreateUpdateStrategy
	isSpace bool
}

func (n named) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	problems := n.RESTCreateUpdateStrategy.Validate(ctx, obj)
	name, err := objectName(obj)
	if err != nil {
		return append(problems, field.InternalError(field.NewPath("metadata", "name"), err))
	}
	if err := key.ValidateName(name); err != nil {
		problems = append(problems, field.Invalid(field.NewPath("metadata", "name"), name, err.Error()))
	}
	if n.isSpace && name == string(key.Root) {
		problems = append(problems, field.Forbidden(field.NewPath("metadata", "name"), "the space root is always there"))
	}
	return append(problems, notForBelow(obj)...)
}

func (n named) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	problems := n.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old)
	if len(notForBelow(old)) > 0 { // an invalid label does not prevent other changes
		return problems
	}
	return append(problems, notForBelow(obj)...)
}

// notForBelow refuses a Space or Location for lower hubs: it would no longer act here, and its
// content would be deleted.
func notForBelow(obj runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil || !v1alpha1.IsForBelow(labels.Set(m.GetLabels())) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "labels").Key(v1alpha1.ForLabel), "Spaces and Locations act where they are written")}
}
