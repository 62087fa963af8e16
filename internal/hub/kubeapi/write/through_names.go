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

// isCoordinate says whether an annotation is one of those that say, where the objects of all
// spaces are shown, where an object is. They are not stored.
func isCoordinate(name string) bool {
	return name == v1alpha1.SpaceAnnotation || name == v1alpha1.SourceNamespaceAnnotation || name == v1alpha1.SourceNameAnnotation
}

// answer is what a client is told: the object as it is called on the shelf, or an error.
func (p *passage) answer(obj runtime.Object, err error) (runtime.Object, error) {
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

// widen makes an object of the space one as it is shown among those of others. It is changed.
func (p *passage) widen(obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	o := key.Object{Space: p.space, Identity: key.Identity{Namespace: m.GetNamespace(), Name: m.GetName()}}
	namespace, name := p.names().At("", o)
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
			_, owners[i].Name = p.names().At("", key.Object{Space: p.space, Identity: key.Identity{Name: owners[i].Name}})
		}
	}
	m.SetOwnerReferences(owners)
	return nil
}

// clustered says whether an owner's name is wide.
func (p *passage) clustered(owner metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && slices.Contains(p.Clustered, schema.GroupKind{Group: gv.Group, Kind: owner.Kind})
}

// narrow makes what a client has sent the object that it is in the space. It is changed. old
// is what there is; nil if there is nothing.
func (p *passage) narrow(obj runtime.Object, old metav1.Object) error {
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
			if isCoordinate(k) { // what somebody has stored there is hidden, and stays
				annotations[k] = v
			}
		}
	}
	if len(annotations) == 0 && (old == nil || old.GetAnnotations() == nil) {
		annotations = nil // it has had none but those that it was shown with
	}
	m.SetAnnotations(annotations)
	return p.narrowOwners(m)
}

// narrowNames takes the space from the names of an object, which must have it.
func (p *passage) narrowNames(m metav1.Object) error {
	if p.kind.Namespaced {
		if m.GetNamespace() != "" {
			m.SetNamespace(p.namespace) // the handlers have compared it with the request's
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

// narrowOwners takes the space from the names of owners.
func (p *passage) narrowOwners(m metav1.Object) error {
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

// rename makes an error one that names what the client named.
func (p *passage) rename(err error) error {
	var of apierrors.APIStatus
	if !p.wide() || !errors.As(err, &of) {
		return err
	}
	status := of.Status()
	status.Details = status.Details.DeepCopy()
	was, now := p.name, p.called.name
	if p.kind.Namespaced {
		if was, now = p.namespace, p.called.namespace; status.Details == nil || status.Details.Kind != key.Namespaces.Resource {
			status.Message = strings.ReplaceAll(status.Message, "namespace "+was+" ", "namespace "+now+" ")
			return &apierrors.StatusError{ErrStatus: status}
		}
	}
	if was == "" {
		return err
	}
	if status.Details != nil && status.Details.Name == was {
		status.Details.Name = now
	}
	status.Message = strings.ReplaceAll(status.Message, fmt.Sprintf("%q", was), fmt.Sprintf("%q", now))
	return &apierrors.StatusError{ErrStatus: status}
}

// plainScopes are scopes of handlers that take the coordinates from what clients send, before
// somebody is said to have written them.
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

// plainDefaulter does it to the results of strategic merge patches.
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
		return // options, which have none
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

// plainApply takes the coordinates from the body of a server-side apply, which no decoder of
// objects sees. limit is how many bytes of it are read at most.
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

// withoutCoordinates is what is applied, as JSON if there is anything to drop. What is wrong
// with it is for the handlers to say.
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
