package binding

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// outline is the part of a stored CRD that determines the bound resource.
type outline struct {
	Spec struct {
		Group    string                        `json:"group"`
		Scope    apiextensionsv1.ResourceScope `json:"scope"`
		Versions []struct {
			Name    string `json:"name"`
			Served  bool   `json:"served"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		AcceptedNames apiextensionsv1.CustomResourceDefinitionNames `json:"acceptedNames"`
	} `json:"status"`
}

// Outline returns the resource that a binding of the present CRD has.
func Outline(crd *table.Row) (v1alpha1.BoundResource, error) {
	var o outline
	if err := json.Unmarshal(crd.Value, &o); err != nil {
		return v1alpha1.BoundResource{}, fmt.Errorf("decode %q: %w", crd.Key, err)
	}
	names := o.Status.AcceptedNames
	bound := v1alpha1.BoundResource{
		ExportedResource: v1alpha1.ExportedResource{Group: o.Spec.Group, Resource: names.Plural},
		Kind:             names.Kind, ListKind: names.ListKind, Singular: names.Singular, ShortNames: names.ShortNames,
		Namespaced: o.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}
	for _, v := range o.Spec.Versions {
		if v.Served {
			bound.Versions = append(bound.Versions, v.Name)
		}
		if v.Storage {
			bound.StorageVersion = v.Name
		}
	}
	return bound, nil
}

// Names returns the names with which a resource is bound.
func Names(bound v1alpha1.BoundResource) apiextensionsv1.CustomResourceDefinitionNames {
	return apiextensionsv1.CustomResourceDefinitionNames{
		Plural: bound.Resource, Singular: bound.Singular, ShortNames: bound.ShortNames, Kind: bound.Kind, ListKind: bound.ListKind,
	}
}
