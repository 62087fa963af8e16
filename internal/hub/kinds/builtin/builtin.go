// Package builtin makes the kinds that need no CRD: those of Kubernetes whose objects can be
// stored, and its reviews, which are answered and not stored.
//
// It must never default or validate: what is required of objects beyond their types is up to
// the space.
package builtin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/columns"
	"orrery.dev/orrery/internal/lib/fieldset"
	"orrery.dev/orrery/internal/protocol/key"
)

// Kinds makes the kinds that every space has, except Orrery's own: all generally available
// kinds of Kubernetes whose objects can be stored. They are ordered by group, a group's
// preferred version first, and by resource. now is the clock of tables. All else is the same in
// each call, so a process makes it once.
func Kinds(now func() time.Time) ([]*kinds.Kind, error) {
	m, err := sharedMachinery()
	if err != nil {
		return nil, err
	}
	untimed, err := untimedKinds()
	if err != nil {
		return nil, err
	}
	tables := columns.New(now)
	all := make([]*kinds.Kind, len(untimed))
	for i, k := range untimed {
		k.Columns = tables.Convertor(k.Storage.WithKind(k.GVK.Kind).GroupKind())
		if all[i], err = kinds.New(k, m.serving(tables)); err != nil {
			return nil, fmt.Errorf("built-in kind %s: %w", k.GVK, err)
		}
	}
	return all, nil
}

// untimedKinds are the kinds without their tables, which have a clock.
var untimedKinds = sync.OnceValues(func() ([]kinds.Kind, error) {
	m, err := sharedMachinery()
	if err != nil {
		return nil, err
	}
	var all []kinds.Kind
	for _, group := range builtinTable() {
		for _, row := range group.kinds {
			k, err := m.untimedKind(group.gv.WithKind(row.kind), row)
			if err != nil {
				return nil, fmt.Errorf("built-in kind %s: %w", group.gv.WithKind(row.kind), err)
			}
			all = append(all, k)
		}
	}
	return all, nil
})

func (m machinery) untimedKind(gvk schema.GroupVersionKind, row builtin) (kinds.Kind, error) {
	stored, hub := gvk.GroupVersion(), gvk.GroupVersion()
	if !row.stored.Empty() {
		stored, hub = row.stored, row.stored
	}
	if !row.hub.Empty() {
		hub = row.hub
	}
	hasTrait := func(t trait) bool { return row.traits&t != 0 }
	k := kinds.Kind{
		GVK:        gvk,
		Storage:    stored,
		Hub:        hub,
		Resource:   key.NewResource(stored.Group, row.plural),
		GVR:        gvk.GroupVersion().WithResource(row.plural),
		Singular:   strings.ToLower(row.kind),
		ListKind:   row.kind + "List",
		Namespaced: !hasTrait(cluster),
		ShortNames: row.short,
		HasStatus:  hasTrait(status),
		Generation: hasTrait(counted),
		Selectable: builtinSelectable()[gvk.GroupKind()],
		Types:      m.schemaOf(gvk.Group),

		SealedStatus: hasTrait(sealed),
	}
	if hasTrait(all) {
		k.Categories = []string{"all"}
	}
	if hasTrait(extension) {
		k.Categories = []string{"api-extensions"}
	}
	if hasTrait(scale) {
		k.Scale = &kinds.Scale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ".status.selector"}
	}
	object, err := m.scheme.New(stored.WithKind(row.kind))
	if err != nil {
		return k, err
	}
	list, err := m.scheme.New(stored.WithKind(k.ListKind))
	if err != nil {
		return k, err
	}
	k.New, k.NewList = makerOf(object), makerOf(list)
	k.StorageCodec = m.storage(stored)
	if k.StoredAsServed() && hub == stored {
		k.Protobuf = m.transcoders.Type(gvk, reflect.TypeOf(object).Elem())
		if k.Created, err = created(&k); err != nil {
			return k, err
		}
	}
	k.Travels = m.travels.Filter(reflect.TypeOf(object).Elem(), k.Resource, k.HasStatus)
	return k, nil
}

// created finds the fields of objects of a kind that their creators own.
func created(k *kinds.Kind) (*fieldset.Created, error) {
	empty := k.New()
	empty.GetObjectKind().SetGroupVersionKind(k.GVK)
	value, err := k.Types.ObjectToTyped(empty)
	if err != nil {
		return nil, err
	}
	stored, err := json.Marshal(empty)
	return fieldset.NewCreated(value, stored, k.HasStatus), err
}

// serving is how handlers treat objects of built-in kinds.
func (m machinery) serving(tables columns.Tables) kinds.Machinery {
	serving := kinds.Machinery{Objects: scopeOf(m.scheme, m.codecs), ScaleHub: autoscalingv1.SchemeGroupVersion}
	serving.Scale = serving.Objects
	serving.Scale.TableConvertor = tables.Scale()
	return serving
}

// scopeOf is how handlers treat objects whose types are in a scheme.
func scopeOf(scheme *runtime.Scheme, codecs runtime.NegotiatedSerializer) handlers.RequestScope {
	return handlers.RequestScope{
		Serializer:      codecs,
		ParameterCodec:  runtime.NewParameterCodec(scheme),
		Creater:         scheme,
		Convertor:       scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(scheme),
		Defaulter:       noDefaults{},
		Typer:           scheme,
	}
}

// noDefaults is the defaulter of the built-in kinds: locations receive only the fields that the user
// wrote.
type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

// makerOf makes empty objects of the type of an example.
func makerOf(example runtime.Object) func() runtime.Object {
	t := reflect.TypeOf(example).Elem()
	return func() runtime.Object { return reflect.New(t).Interface().(runtime.Object) }
}
