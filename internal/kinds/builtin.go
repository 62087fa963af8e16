package kinds

import (
	"fmt"
	"reflect"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"orrery.dev/orrery/internal/key"
)

// Builtins makes the kinds that every space has, Orrery's own excepted: all
// generally available kinds of Kubernetes whose objects can be kept. They come
// by group, a group's preferred version first, and by resource. They share one
// scheme, so one call per process is enough.
func Builtins() ([]*Kind, error) {
	m, err := newMachinery()
	if err != nil {
		return nil, err
	}
	printers := builtinPrinters()
	var kinds []*Kind
	for _, group := range builtinTable() {
		for _, row := range group.kinds {
			k, err := m.newKind(group.gv.WithKind(row.kind), row, printers)
			if err != nil {
				return nil, fmt.Errorf("built-in kind %s: %w", group.gv.WithKind(row.kind), err)
			}
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

func (m machinery) newKind(gvk schema.GroupVersionKind, row builtin, printers map[schema.GroupKind]printer) (*Kind, error) {
	stored, hub := gvk.GroupVersion(), gvk.GroupVersion()
	if !row.stored.Empty() {
		stored, hub = row.stored, row.stored
	}
	if !row.hub.Empty() {
		hub = row.hub
	}
	has := func(t trait) bool { return row.traits&t != 0 }
	k := &Kind{
		GVK:        gvk,
		Storage:    stored,
		Hub:        hub,
		Resource:   key.NewResource(stored.Group, row.plural),
		GVR:        gvk.GroupVersion().WithResource(row.plural),
		Singular:   strings.ToLower(row.kind),
		ListKind:   row.kind + "List",
		Namespaced: !has(cluster),
		ShortNames: row.short,
		HasStatus:  has(status),
		Generation: has(counted),
		Selectable: builtinSelectable()[gvk.GroupKind()],
		Types:      m.schemaOf(gvk.Group),

		sealedStatus: has(sealed),
	}
	if has(all) {
		k.Categories = []string{"all"}
	}
	if has(extension) {
		k.Categories = []string{"api-extensions"}
	}
	if has(scale) {
		k.Scale = &Scale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ".status.selector"}
	}
	object, err := m.scheme.New(stored.WithKind(row.kind))
	if err != nil {
		return nil, err
	}
	list, err := m.scheme.New(stored.WithKind(k.ListKind))
	if err != nil {
		return nil, err
	}
	k.New, k.NewList = makerOf(object), makerOf(list)
	k.StorageCodec = m.storage(stored)
	k.Columns = printers[stored.WithKind(row.kind).GroupKind()]
	k.travels = withMetadata(m.noise.ofKind(reflect.TypeOf(object).Elem()), false, k.HasStatus)
	withoutServerSpec(k.travels, k.Resource)
	return k, m.addScopes(k)
}

// addScopes gives a kind the scopes of itself and of its subresources.
func (m machinery) addScopes(k *Kind) error {
	base := handlers.RequestScope{
		Serializer:      m.codecs,
		ParameterCodec:  m.parameters,
		Creater:         m.scheme,
		Convertor:       m.scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(m.scheme),
		Defaulter:       noDefaults{},
		Typer:           m.scheme,
	}
	if err := k.addScope("", k.GVK, k.Hub, base); err != nil {
		return err
	}
	if k.HasStatus {
		if err := k.addScope(StatusSubresource, k.GVK, k.Hub, base); err != nil {
			return err
		}
	}
	if k.Scale == nil {
		return nil
	}
	base.TableConvertor = scalePrinter()
	gvk := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	return k.addScope(ScaleSubresource, gvk, gvk.GroupVersion(), base)
}

// makerOf makes empty objects of the type of an example.
func makerOf(example runtime.Object) func() runtime.Object {
	t := reflect.TypeOf(example).Elem()
	return func() runtime.Object { return reflect.New(t).Interface().(runtime.Object) }
}
