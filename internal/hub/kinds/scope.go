package kinds

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// maxRequestBody is the maximum size of the body of a request in bytes, as in kube-apiserver. The
// limit for stored objects is smaller.
const maxRequestBody = 3 << 20

// Names of the subresources that kinds may have.
const (
	StatusSubresource = "status"
	ScaleSubresource  = "scale"
	// TokenSubresource of a Location makes a join token when it is created, as for a ServiceAccount.
	// Deleting it revokes all credentials of the location's agent.
	TokenSubresource = "token"
)

// Scope returns the RequestScope with which the handlers of k8s.io/apiserver serve the kind itself
// (subresource "") or one of its subresources; nil if there is no such subresource. The caller owns
// the copy and may change it, but not the values to which it points.
//
// The scope authorizes everything, since requests are authorized before they reach a handler.
func (k *Kind) Scope(subresource string) *handlers.RequestScope {
	scope, ok := k.scopes[subresource]
	if !ok {
		return nil
	}
	c := *scope
	return &c
}

// ResetFields returns the fields that a write to the kind (subresource "") or to its status must not
// change. Strategies and field managers must use the same fields: a field manager must not own a
// field that a strategy resets.
func (k *Kind) ResetFields(subresource string) map[fieldpath.APIVersion]*fieldpath.Set {
	var reset *fieldpath.Set
	switch {
	case subresource == "" && k.HasStatus:
		reset = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	case subresource == StatusSubresource:
		reset = k.statusResets()
	default:
		return nil
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(k.GVK.GroupVersion().String()): reset,
		fieldpath.APIVersion(k.Storage.String()):            reset,
	}
}

// Machinery encodes, decodes, converts and makes the objects of a kind.
type Machinery struct {
	// Objects is for the kind itself and its status.
	Objects handlers.RequestScope
	// Scale is for the scale subresource, if the kind has one, and ScaleHub the
	// version of its managed fields in memory.
	Scale    handlers.RequestScope
	ScaleHub schema.GroupVersion
}

// New returns a kind that can be served: it has a scope for itself and for each of its subresources.
func New(k Kind, m Machinery) (*Kind, error) {
	k.scopes = map[string]*handlers.RequestScope{}
	if err := k.addScope("", k.GVK, k.Hub, m.Objects); err != nil {
		return nil, err
	}
	if k.HasStatus {
		if err := k.addScope(StatusSubresource, k.GVK, k.Hub, m.Objects); err != nil {
			return nil, err
		}
	}
	if k.Scale != nil {
		if err := k.addScope(ScaleSubresource, autoscalingv1.SchemeGroupVersion.WithKind("Scale"), m.ScaleHub, m.Scale); err != nil {
			return nil, err
		}
	}
	return &k, nil
}

// addScope completes and keeps the scope of the kind itself or of a
// subresource. served is the kind that clients see there and hub its version in
// memory (for scale not the kind's own).
func (k *Kind) addScope(subresource string, served schema.GroupVersionKind, hub schema.GroupVersion, scope handlers.RequestScope) error {
	scope.Namer = handlers.ContextBasedNaming{Namer: runtime.Namer(meta.NewAccessor()), ClusterScoped: !k.Namespaced}
	scope.Resource = k.GVR
	scope.Subresource = subresource
	scope.Kind = served
	scope.HubGroupVersion = hub
	scope.MetaGroupVersion = metav1.SchemeGroupVersion
	scope.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	scope.MaxRequestBodyBytes = maxRequestBody
	if scope.TableConvertor == nil {
		scope.TableConvertor = k.Columns
	}
	newManager := managedfields.NewDefaultFieldManager
	if k.Custom != nil {
		newManager = managedfields.NewDefaultCRDFieldManager
	}
	types := k.Types
	if subresource == ScaleSubresource && k.Custom == nil {
		// The clients' schemas lack Scale, which has no lists that would need one.
		types = managedfields.NewDeducedTypeConverter()
	}
	manager, err := newManager(types, scope.UnsafeConvertor, scope.Defaulter, scope.Creater,
		served, hub, subresource, fieldpath.NewExcludeFilterSetMap(k.ResetFields(subresource)))
	if err != nil {
		return fmt.Errorf("make the field manager of %s %q: %w", k.GVR.String(), subresource, err)
	}
	scope.FieldManager = manager
	k.scopes[subresource] = &scope
	return nil
}

// NewMetaScheme returns a scheme of the types that are sent besides objects: options, errors, watch
// events and discovery.
func NewMetaScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.WatchEvent{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
}
