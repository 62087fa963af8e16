package custom

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/columns"
	"orrery.dev/orrery/internal/hub/kinds/downsync"
	"orrery.dev/orrery/internal/protocol/key"
)

// kind makes the kind of one version.
func (d *Definition) kind(v apiextensionsv1.CustomResourceDefinitionVersion) (*kinds.Kind, error) {
	made := version{def: d, spec: v}
	gv := d.gv(v.Name)
	gvk, list := gv.WithKind(d.names.Kind), gv.WithKind(d.names.ListKind)
	k := kinds.Kind{
		GVK:        gvk,
		Storage:    d.gv(d.storage),
		Hub:        gv,
		Resource:   key.NewResource(d.group, d.names.Plural),
		GVR:        gv.WithResource(d.names.Plural),
		Singular:   d.names.Singular,
		ListKind:   d.names.ListKind,
		Namespaced: d.namespaced,
		ShortNames: d.names.ShortNames,
		Categories: d.names.Categories,
		Generation: true,
		New: func() runtime.Object {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(gvk)
			return o
		},
		NewList: func() runtime.Object {
			o := &unstructured.UnstructuredList{}
			o.SetGroupVersionKind(list)
			return o
		},
		StorageCodec: made.codec(),
		Types:        lazyTypes{d},
		Columns:      columns.Custom(v.AdditionalPrinterColumns),
		Travels:      downsync.Custom(d.group),
		Custom:       made,
		SealedStatus: true,
	}
	for _, f := range v.SelectableFields {
		path := strings.TrimPrefix(f.JSONPath, ".")
		k.Selectable = append(k.Selectable, kinds.Selectable{Label: path, Path: path})
	}
	if s := v.Subresources; s != nil {
		k.HasStatus = s.Status != nil
		if s.Scale != nil {
			k.Scale = &kinds.Scale{SpecReplicasPath: s.Scale.SpecReplicasPath, StatusReplicasPath: s.Scale.StatusReplicasPath}
			if s.Scale.LabelSelectorPath != nil {
				k.Scale.LabelSelectorPath = *s.Scale.LabelSelectorPath
			}
		}
	}
	served, err := kinds.New(k, d.serving(gv))
	if err != nil {
		return nil, fmt.Errorf("compile %q of CRD %q: %w", v.Name, d.name(), err)
	}
	return served, nil
}

// serving is how handlers treat objects of the kinds.
func (d *Definition) serving(hub schema.GroupVersion) kinds.Machinery {
	s := customSerializer{d}
	m := d.machinery
	// Scale has a version of its own, but its managed fields are the object's.
	serving := kinds.Machinery{ScaleHub: hub, Objects: handlers.RequestScope{
		Serializer:          s,
		ParameterCodec:      m.parameters,
		StandardSerializers: s.SupportedMediaTypes()[:2], // all but protobuf
		Creater:             creator{},
		Convertor:           d.convertor,
		// The field manager keeps what it gives to be converted: it must not
		// get the converter that reuses its input.
		UnsafeConvertor: d.convertor,
		Defaulter:       defaulter{d},
		Typer:           m.typer,
	}}
	serving.Scale = serving.Objects
	serving.Scale.Serializer = m.scales
	serving.Scale.TableConvertor = m.scaleTable
	return serving
}
