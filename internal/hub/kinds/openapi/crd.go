package openapi

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Custom is the documents of one version of a CRD, each packed, and made when it is
// first asked for.
type Custom struct {
	// V3 is a whole document.
	V3 func() ([]byte, error)
	// V2 and V2Proto are what the version adds to the document of the built-in
	// kinds, whose definitions it refers to.
	V2, V2Proto func() ([]byte, error)
}

// Describe describes a version of a CRD. The CRD is asked for when it is needed,
// and has the names by which its objects are served in its spec.
func Describe(crd func() (*apiextensionsv1.CustomResourceDefinition, error), version string) *Custom {
	c := &Custom{
		V3: sync.OnceValues(func() ([]byte, error) { return describe(crd, version, describeV3) }),
		V2: sync.OnceValues(func() ([]byte, error) { return describe(crd, version, describeV2) }),
	}
	c.V2Proto = sync.OnceValues(func() ([]byte, error) {
		packed, err := c.V2()
		if err != nil {
			return nil, err
		}
		data, err := Unpack(packed)
		if err != nil {
			return nil, err
		}
		proto, err := handler.ToProtoBinary(data)
		if err != nil {
			return nil, fmt.Errorf("describe version %q of a CRD: encode: %w", version, err)
		}
		return pack(proto)
	})
	return c
}

func describe(crd func() (*apiextensionsv1.CustomResourceDefinition, error), version string,
	build func(crd *apiextensionsv1.CustomResourceDefinition, version string) (any, error),
) ([]byte, error) {
	definition, err := crd()
	if err != nil {
		return nil, err
	}
	document, err := build(definition, version)
	if err != nil {
		return nil, fmt.Errorf("describe %q of CRD %q: %w", version, definition.Name, err)
	}
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("describe %q of CRD %q: %w", version, definition.Name, err)
	}
	return pack(data)
}

func describeV3(crd *apiextensionsv1.CustomResourceDefinition, version string) (any, error) {
	return builder.BuildOpenAPIV3(crd, version, builder.Options{IncludeSelectableFields: true})
}

func describeV2(crd *apiextensionsv1.CustomResourceDefinition, version string) (any, error) {
	document, err := builder.BuildOpenAPIV2(crd, version, builder.Options{V2: true, IncludeSelectableFields: true})
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, kind := range []string{crd.Spec.Names.Kind, crd.Spec.Names.ListKind} {
		own[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: kind}.String()] = true
	}
	for name, s := range document.Definitions {
		if !own[definedKind(s)] {
			delete(document.Definitions, name)
		}
	}
	return document, nil
}

// definedKind is the one kind that a schema says it is of; "" for none or many.
func definedKind(s spec.Schema) string {
	data, err := json.Marshal(s.Extensions["x-kubernetes-group-version-kind"])
	if err != nil {
		return ""
	}
	var kinds []schema.GroupVersionKind
	if err := json.Unmarshal(data, &kinds); err != nil || len(kinds) != 1 {
		return ""
	}
	return kinds[0].String()
}
