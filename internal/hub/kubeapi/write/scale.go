package write

import (
	"context"
	"fmt"
	"math"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/hub/kinds"
)

// scaleStorage reads and writes the replicas of the objects of one kind.
type scaleStorage struct {
	kind  *kinds.Kind
	store *genericregistry.Store
}

var _ rest.Patcher = (*scaleStorage)(nil)

func (s *scaleStorage) New() runtime.Object { return &autoscalingv1.Scale{} }

func (s *scaleStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	if path, missing := noReplicas(s.kind, obj); missing {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", path))
	}
	return scaleOf(s.kind, obj)
}

// noReplicas reports whether a custom object lacks the replicas field of its scale, and returns the
// field's path. A missing field is not the same as zero.
func noReplicas(kind *kinds.Kind, obj runtime.Object) (path string, missing bool) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", false
	}
	path = kind.Scale.SpecReplicasPath
	_, found, err := unstructured.NestedFieldNoCopy(u.Object, split(path)...)
	return path, err == nil && !found
}

func (s *scaleStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	validate := func(ctx context.Context, obj, old runtime.Object) error {
		now, err := scaleOf(s.kind, obj)
		if err != nil {
			return err
		}
		previous, err := scaleOf(s.kind, old)
		if err != nil {
			return err
		}
		return update(ctx, now, previous)
	}
	obj, _, err := s.store.Update(ctx, name, scaled{s.kind, info}, rest.ValidateAllObjectFunc, validate, false, options)
	if err != nil {
		return nil, false, err
	}
	scale, err := scaleOf(s.kind, obj)
	return scale, false, err
}

// neverReplicas marks missing replicas in a scale that is being updated.
const neverReplicas = math.MinInt32

// scaled turns an update of a scale into an update of its object.
type scaled struct {
	kind *kinds.Kind
	info rest.UpdatedObjectInfo
}

func (s scaled) Preconditions() *metav1.Preconditions { return s.info.Preconditions() }

func (s scaled) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	previous, err := scaleOf(s.kind, obj)
	if err != nil {
		return nil, err
	}
	fields := managedfields.NewScaleHandler(m.GetManagedFields(), s.kind.GVK.GroupVersion(), replicasPaths(s.kind))
	if previous.ManagedFields, err = fields.ToSubresource(); err != nil {
		return nil, err
	}
	path, missing := noReplicas(s.kind, obj)
	if missing {
		previous.Spec.Replicas = neverReplicas
	}
	updated, err := s.info.UpdatedObject(ctx, previous)
	if err != nil {
		return nil, err
	}
	scale, ok := updated.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("wrong object passed to Scale update: %T", updated))
	}
	if missing && scale.Spec.Replicas == neverReplicas {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", path))
	}
	// CRDs refuse negative numbers by their schemas.
	if scale.Spec.Replicas < 0 && s.kind.Custom == nil {
		return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), scale.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0")})
	}
	if err := setReplicas(s.kind, obj, scale.Spec.Replicas); err != nil {
		return nil, err
	}
	if scale.ResourceVersion != "" {
		m.SetResourceVersion(scale.ResourceVersion)
	}
	managed, err := fields.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(managed)
	return obj, nil
}

func replicasPaths(kind *kinds.Kind) managedfields.ResourcePathMappings {
	if kind.Custom != nil {
		return kind.Custom.ReplicasPaths()
	}
	return managedfields.ResourcePathMappings{kind.GVK.GroupVersion().String(): fieldpath.MakePathOrDie("spec", "replicas")}
}

// scaleOf returns the scale of an object.
func scaleOf(kind *kinds.Kind, obj runtime.Object) (*autoscalingv1.Scale, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{
		// Without these, the library would convert the scale.
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv1.SchemeGroupVersion.String(), Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(),
			ResourceVersion: m.GetResourceVersion(), CreationTimestamp: m.GetCreationTimestamp(),
		},
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return scale, readCustomScale(kind.Scale, u, scale)
	}
	replicas, selector, err := workload(obj)
	if err != nil {
		return nil, err
	}
	// The default of Kubernetes.
	scale.Spec.Replicas = 1
	if *replicas != nil {
		scale.Spec.Replicas = **replicas
	}
	scale.Status.Replicas = statusReplicas(obj)
	scale.Status.Selector = selector
	return scale, nil
}

func statusReplicas(obj runtime.Object) int32 {
	status, ok := statusOf(obj)
	if !ok {
		return 0
	}
	return int32(status.FieldByName("Replicas").Int())
}

// workload returns a pointer to the replicas of a built-in object, and its selector as text.
func workload(obj runtime.Object) (replicas **int32, selector string, err error) {
	var labelSelector *metav1.LabelSelector
	switch o := obj.(type) {
	case *appsv1.Deployment:
		replicas, labelSelector = &o.Spec.Replicas, o.Spec.Selector
	case *appsv1.ReplicaSet:
		replicas, labelSelector = &o.Spec.Replicas, o.Spec.Selector
	case *appsv1.StatefulSet:
		replicas, labelSelector = &o.Spec.Replicas, o.Spec.Selector
	case *corev1.ReplicationController:
		return &o.Spec.Replicas, labels.Set(o.Spec.Selector).String(), nil
	default:
		return nil, "", apierrors.NewInternalError(fmt.Errorf("scale %T: has no replicas", obj))
	}
	s, err := metav1.LabelSelectorAsSelector(labelSelector)
	if err != nil {
		return nil, "", apierrors.NewInternalError(fmt.Errorf("scale %T: %w", obj, err))
	}
	return replicas, s.String(), nil
}

func readCustomScale(paths *kinds.Scale, u *unstructured.Unstructured, scale *autoscalingv1.Scale) error {
	replicas, _, err := unstructured.NestedInt64(u.Object, split(paths.SpecReplicasPath)...)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	scale.Spec.Replicas = int32(replicas)
	if replicas, _, err = unstructured.NestedInt64(u.Object, split(paths.StatusReplicasPath)...); err != nil {
		return apierrors.NewInternalError(err)
	}
	scale.Status.Replicas = int32(replicas)
	if paths.LabelSelectorPath == "" {
		return nil
	}
	if scale.Status.Selector, _, err = unstructured.NestedString(u.Object, split(paths.LabelSelectorPath)...); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

func setReplicas(kind *kinds.Kind, obj runtime.Object, n int32) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return unstructured.SetNestedField(u.Object, int64(n), split(kind.Scale.SpecReplicasPath)...)
	}
	replicas, _, err := workload(obj)
	if err == nil {
		*replicas = &n
	}
	return err
}

// split splits a path of a CRD, which starts with a dot.
func split(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
