package write

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// inert is the strategy of built-in kinds. Objects are stored as written, with valid metadata. Only
// the status subresource writes the status.
type inert struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind *kinds.Kind
	name validation.ValidateNameFunc
}

var _ rest.RESTCreateUpdateStrategy = inert{}

func newInert(kind *kinds.Kind, typer runtime.ObjectTyper) inert {
	return inert{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, kind: kind, name: nameRule(kind.Resource)}
}

func (s inert) NamespaceScoped() bool { return s.kind.Namespaced }

func (s inert) AllowCreateOnUpdate() bool { return createsOnUpdate(s.kind.Resource) }

func (s inert) AllowUnconditionalUpdate() bool { return !demandsVersion(s.kind.Resource) }

func (s inert) PrepareForCreate(_ context.Context, obj runtime.Object) {
	// Nodes register themselves with a status, as kubelets do.
	if s.kind.HasStatus && s.kind.Resource != key.NewResource("", "nodes") {
		clearStatus(obj)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return // can't happen: the caller has used an accessor of the object
	}
	if s.kind.Generation {
		m.SetGeneration(1)
	}
}

func (s inert) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.kind.HasStatus {
		copyStatus(obj, old)
	}
	if s.kind.Generation && !sameContent(obj, old) {
		if m, err := meta.Accessor(obj); err == nil {
			m.SetGeneration(m.GetGeneration() + 1)
		}
	}
}

func (s inert) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	path := field.NewPath("metadata")
	return append(validation.ValidateObjectMetaAccessor(m, s.kind.Namespaced, s.name, path), s.validateFinalizers(m, path)...)
}

// ValidateUpdate validates finalizers; the caller validates the other metadata.
func (s inert) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	m, err := meta.Accessor(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	return s.validateFinalizers(m, field.NewPath("metadata"))
}

// validateFinalizers refuses names without a domain but the standard ones, as Kubernetes does for its
// own kinds. CRDs and APIServices belong to other API servers and may have any.
func (s inert) validateFinalizers(m metav1.Object, path *field.Path) (problems field.ErrorList) {
	if s.kind.Resource == key.CRDs || s.kind.Resource.Group == "apiregistration.k8s.io" {
		return nil
	}
	for i, name := range m.GetFinalizers() {
		switch {
		case strings.Contains(name, "/"):
		case name == string(corev1.FinalizerKubernetes), name == metav1.FinalizerOrphanDependents, name == metav1.FinalizerDeleteDependents:
		default:
			problems = append(problems, field.Invalid(path.Child("finalizers").Index(i), name,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return problems
}

func (inert) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (inert) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string { return nil }

func (inert) Canonicalize(runtime.Object) {}

// inertStatus is the strategy of the status of built-in kinds. It writes the status and, like
// Kubernetes, some metadata, but nothing else.
type inertStatus struct{ inert }

func (inertStatus) AllowCreateOnUpdate() bool { return false }

func (s inertStatus) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	copyContent(obj, old)
	now, err := meta.Accessor(obj)
	previous, err2 := meta.Accessor(old)
	if err == nil && err2 == nil { // always: the caller has used these accessors
		s.kind.ResetForStatus(now, previous)
	}
}

// isDeleting reports whether an object has a deletion timestamp.
func isDeleting(m metav1.Object) bool { return !m.GetDeletionTimestamp().IsZero() }
