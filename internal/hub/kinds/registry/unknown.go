package registry

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/kinds/custom"
)

// Unknown returns a kind of which only the names are known: its objects may have any content. It fails
// if a name is invalid.
func (r *Registry) Unknown(gvr schema.GroupVersionResource, kind string, namespaced bool) (*kinds.Kind, error) {
	if err := kinds.CheckKind(kind); err != nil {
		return nil, err
	}
	if problems := validation.IsDNS1035Label(gvr.Version); len(problems) > 0 {
		return nil, fmt.Errorf("version %q: %s", gvr.Version, strings.Join(problems, "; "))
	}
	definition, err := r.anything(gvr.Group, apiextensionsv1.CustomResourceDefinitionNames{
		Plural: gvr.Resource, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
	}, namespaced, version(gvr.Version, true, true))
	if err != nil {
		return nil, fmt.Errorf("make an unknown kind %s: %w", gvr, err)
	}
	k := *definition.Kinds()[0] // a CRD may define the same
	k.Unknown = true
	return &k, nil
}

// outline returns a bound resource without its definition: its objects may have any content.
func (r *Registry) outline(bound v1alpha1.BoundResource) (*custom.Definition, error) {
	var versions []apiextensionsv1.CustomResourceDefinitionVersion
	for _, name := range bound.Versions {
		v := version(name, true, name == bound.StorageVersion)
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		versions = append(versions, v)
	}
	if !slices.Contains(bound.Versions, bound.StorageVersion) {
		versions = append(versions, version(bound.StorageVersion, false, true))
	}
	return r.anything(bound.Group, binding.Names(bound), bound.Namespaced, versions...)
}

func version(name string, served, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
	anything := true
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: served, Storage: storage, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything},
		},
	}
}

// anything defines a resource without a schema.
func (r *Registry) anything(group string, names apiextensionsv1.CustomResourceDefinitionNames, namespaced bool, versions ...apiextensionsv1.CustomResourceDefinitionVersion) (*custom.Definition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.ClusterScoped, Names: names, Versions: versions,
	}}
	crd.Name = names.Plural + "." + group
	if namespaced {
		crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	return r.compiler.Compile(crd)
}
