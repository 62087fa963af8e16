package kinds

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/key"
)

// kind makes the kind of one version.
func (d *definition) kind(v apiextensionsv1.CustomResourceDefinitionVersion) (*Kind, error) {
	gv := d.gv(v.Name)
	gvk, list := gv.WithKind(d.names.Kind), gv.WithKind(d.names.ListKind)
	k := &Kind{
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
		StorageCodec: storageCodec{def: d, served: v.Name},
		Types:        lazyTypes{d},
		Columns:      customColumns(v.AdditionalPrinterColumns),
	}
	for _, f := range v.SelectableFields {
		path := strings.TrimPrefix(f.JSONPath, ".")
		k.Selectable = append(k.Selectable, Selectable{Label: path, Path: path})
	}
	if s := v.Subresources; s != nil {
		k.HasStatus = s.Status != nil
		if s.Scale != nil {
			k.Scale = &Scale{SpecReplicasPath: s.Scale.SpecReplicasPath, StatusReplicasPath: s.Scale.StatusReplicasPath}
			if s.Scale.LabelSelectorPath != nil {
				k.Scale.LabelSelectorPath = *s.Scale.LabelSelectorPath
			}
		}
	}
	k.Custom = &Custom{def: d, version: v, kind: k}
	if err := k.Custom.addScopes(); err != nil {
		return nil, fmt.Errorf("compile %q of CRD %q: %w", v.Name, d.name(), err)
	}
	return k, nil
}

// addScopes gives the kind the scopes of itself and of its subresources.
func (c *Custom) addScopes() error {
	s := customSerializer{c.def}
	m := c.def.compiler.customMachinery
	base := handlers.RequestScope{
		Serializer:          s,
		ParameterCodec:      m.parameters,
		StandardSerializers: s.SupportedMediaTypes()[:2], // all but protobuf
		Creater:             creator{},
		Convertor:           c.def.convertor,
		// The field manager keeps what it gives to be converted: it must not
		// get the converter that reuses its input.
		UnsafeConvertor: c.def.convertor,
		Defaulter:       defaulter{c.def},
		Typer:           m.typer,
	}
	k := c.kind
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
	base.Serializer = m.scales
	base.TableConvertor = scalePrinter()
	// Scale has a version of its own, but its managed fields are the object's.
	return k.addScope(ScaleSubresource, autoscalingv1.SchemeGroupVersion.WithKind("Scale"), k.Hub, base)
}

// customColumns falls back to name and age, as Kubernetes does: a CRD with columns
// that can't be read is served all the same.
func customColumns(defined []apiextensionsv1.CustomResourceColumnDefinition) rest.TableConvertor {
	if len(defined) == 0 {
		defined = ageColumn()
	}
	table, err := tableconvertor.New(defined)
	if err != nil {
		table, _ = tableconvertor.New(ageColumn())
	}
	return table
}

func ageColumn() []apiextensionsv1.CustomResourceColumnDefinition {
	return []apiextensionsv1.CustomResourceColumnDefinition{{
		Name:        "Age",
		Type:        "date",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		JSONPath:    ".metadata.creationTimestamp",
	}}
}
