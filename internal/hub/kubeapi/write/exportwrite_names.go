package write

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/protocol/key"
)

// isCoordinate reports whether an annotation is the space, namespace or name of an object in a view of
// all spaces. These annotations are not stored.
func isCoordinate(name string) bool {
	return name == v1alpha1.SpaceAnnotation || name == v1alpha1.SourceNamespaceAnnotation || name == v1alpha1.SourceNameAnnotation
}

// answer returns the response for a client: the object with its names in the view, or an error.
func (p *exportWrite) answer(obj runtime.Object, err error) (runtime.Object, error) {
	if err != nil {
		return nil, p.rename(err)
	}
	if !p.wide() || obj == nil {
		return obj, nil
	}
	if status, ok := obj.(*metav1.Status); ok {
		if status.Details != nil && status.Details.Name == p.name {
			status.Details.Name = p.called.name
		}
		return status, nil
	}
	return obj, p.widen(obj)
}

// widen changes an object of the space to its form in a view of all spaces.
func (p *exportWrite) widen(obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	o := key.Object{Space: p.space, Identity: key.Identity{Namespace: m.GetNamespace(), Name: m.GetName()}}
	namespace, name := p.names().ObjectName("", o)
	m.SetNamespace(namespace)
	m.SetName(name)
	if _, ok := obj.(*autoscalingv1.Scale); ok {
		return nil
	}
	annotations := map[string]string{}
	for k, v := range m.GetAnnotations() {
		if !isCoordinate(k) {
			annotations[k] = v
		}
	}
	annotations[v1alpha1.SpaceAnnotation], annotations[v1alpha1.SourceNameAnnotation] = string(o.Space), o.Name
	if o.Namespace != "" {
		annotations[v1alpha1.SourceNamespaceAnnotation] = o.Namespace
	}
	m.SetAnnotations(annotations)
	owners := slices.Clone(m.GetOwnerReferences())
	for i := range owners {
		if p.clustered(owners[i]) {
			_, owners[i].Name = p.names().ObjectName("", key.Object{Space: p.space, Identity: key.Identity{Name: owners[i].Name}})
		}
	}
	m.SetOwnerReferences(owners)
	return nil
}

// clustered reports whether an owner's name is wide.
func (p *exportWrite) clustered(owner metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && slices.Contains(p.Clustered, schema.GroupKind{Group: gv.Group, Kind: owner.Kind})
}

// narrow changes an object that a client sent to its form in the space. old is nil for a new object.
func (p *exportWrite) narrow(obj runtime.Object, old metav1.Object) error {
	if !p.wide() {
		return nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if err := p.narrowNames(m); err != nil {
		return err
	}
	annotations := map[string]string{}
	for k, v := range m.GetAnnotations() {
		if !isCoordinate(k) {
			annotations[k] = v
		}
	}
	if old != nil {
		for k, v := range old.GetAnnotations() {
			if isCoordinate(k) { // stored annotations of these names are hidden, and stay
				annotations[k] = v
			}
		}
	}
	if len(annotations) == 0 && (old == nil || old.GetAnnotations() == nil) {
		annotations = nil // the client returned only the annotations of the view
	}
	m.SetAnnotations(annotations)
	return p.narrowOwners(m)
}

// narrowNames removes the space from the names of an object.
func (p *exportWrite) narrowNames(m metav1.Object) error {
	if p.kind.Namespaced {
		if m.GetNamespace() != "" {
			m.SetNamespace(p.namespace) // handlers have verified that it is that of the request
		}
		return nil
	}
	switch {
	case m.GetName() == p.called.name:
		m.SetName(p.name)
	case m.GetName() != "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", m.GetName(), p.called.name))
	case m.GetGenerateName() == p.called.name:
		m.SetGenerateName(p.name)
	}
	return nil
}

// narrowOwners removes the space from the names of owners.
func (p *exportWrite) narrowOwners(m metav1.Object) error {
	owners := slices.Clone(m.GetOwnerReferences())
	for i := range owners {
		if !p.clustered(owners[i]) {
			continue
		}
		c, ok := p.names().Split(false, "", owners[i].Name)
		if !ok || c.Space != p.space {
			return apierrors.NewInvalid(p.kind.GVK.GroupKind(), p.called.name, field.ErrorList{field.Invalid(
				field.NewPath("metadata", "ownerReferences").Index(i).Child("name"), owners[i].Name, fmt.Sprintf("must be the name of an object of space %q", p.space))})
		}
		owners[i].Name = c.Name
	}
	if len(owners) > 0 {
		m.SetOwnerReferences(owners)
	}
	return nil
}

// rename replaces names of the space in an error by those of the view.
func (p *exportWrite) rename(err error) error {
	var apiStatus apierrors.APIStatus
	if !p.wide() || !errors.As(err, &apiStatus) {
		return err
	}
	status := apiStatus.Status()
	status.Details = status.Details.DeepCopy()
	inSpace, inView := p.name, p.called.name
	if p.kind.Namespaced {
		if inSpace, inView = p.namespace, p.called.namespace; status.Details == nil || status.Details.Kind != key.Namespaces.Resource {
			status.Message = strings.ReplaceAll(status.Message, "namespace "+inSpace+" ", "namespace "+inView+" ")
			return &apierrors.StatusError{ErrStatus: status}
		}
	}
	if inSpace == "" {
		return err
	}
	if status.Details != nil && status.Details.Name == inSpace {
		status.Details.Name = inView
	}
	status.Message = strings.ReplaceAll(status.Message, fmt.Sprintf("%q", inSpace), fmt.Sprintf("%q", inView))
	return &apierrors.StatusError{ErrStatus: status}
}

// plainScopes returns scopes whose handlers remove the coordinates from objects that clients send.
// This happens before field managers record the owners of annotations.
func plainScopes(scopes map[string]*handlers.RequestScope) map[string]*handlers.RequestScope {
	all := make(map[string]*handlers.RequestScope, len(scopes))
	for name, scope := range scopes {
		plain := *scope
		plain.Serializer = changing{scope.Serializer, dropCoordinates}
		plain.Defaulter = plainDefaulter{scope.Defaulter}
		all[name] = &plain
	}
	return all
}

// plainDefaulter removes the coordinates from the results of strategic merge patches.
type plainDefaulter struct{ runtime.ObjectDefaulter }

func (d plainDefaulter) Default(obj runtime.Object) {
	d.ObjectDefaulter.Default(obj)
	dropCoordinates(obj)
}

func dropCoordinates(obj runtime.Object) {
	if obj == nil {
		return
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return // options have no metadata
	}
	all := m.GetAnnotations()
	if !anyCoordinate(all) {
		return
	}
	annotations := map[string]string{}
	for k, v := range all {
		if !isCoordinate(k) {
			annotations[k] = v
		}
	}
	m.SetAnnotations(annotations)
}

func anyCoordinate[V any](annotations map[string]V) bool {
	for k := range annotations {
		if isCoordinate(k) {
			return true
		}
	}
	return false
}

// plainApply removes the coordinates from the body of a server-side apply, which no decoder of objects
// reads. limit is the maximum number of bytes to read.
func plainApply(req *http.Request, limit int64) error {
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if kind != string(types.ApplyYAMLPatchType) {
		return nil
	}
	data, whole, err := requestbody.Peek(req, limit)
	if err == nil && whole && bytes.Contains(data, []byte(v1alpha1.Group)) {
		requestbody.Put(req, withoutCoordinates(data))
	}
	return err
}

// withoutCoordinates returns the applied object, as JSON if there is anything to remove. Handlers
// report invalid bodies.
func withoutCoordinates(data []byte) []byte {
	plain, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return data
	}
	var object map[string]any
	if json.Unmarshal(plain, &object) != nil {
		return data
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if !anyCoordinate(annotations) {
		return data
	}
	for k := range annotations {
		if isCoordinate(k) {
			delete(annotations, k)
		}
	}
	if plain, err = json.Marshal(object); err != nil {
		return data
	}
	return plain
}
