package registry

import (
	"embed"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/protocol/key"
)

// orreryCRDs are generated from the types in apis/v1alpha1.
//
//go:embed crds/*.yaml
var orreryCRDs embed.FS

// ownCRDs returns Orrery's CRDs. They are read once per process and must not be changed.
var ownCRDs = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := orreryCRDs.ReadDir("crds")
	if err != nil {
		return nil, fmt.Errorf("list Orrery's kinds: %w", err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, f := range files {
		data, err := orreryCRDs.ReadFile("crds/" + f.Name())
		if err != nil {
			return nil, fmt.Errorf("read Orrery's kinds: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("read %q: %w", f.Name(), err)
		}
		all = append(all, crd)
	}
	return all, nil
})

// ownKinds compiles Orrery's own kinds. They are described as CRDs are, but every
// space has them and none lists them as CRDs.
func ownKinds(c *custom.Compiler) ([]*kinds.Kind, error) {
	crds, err := ownCRDs()
	if err != nil {
		return nil, err
	}
	var own []*kinds.Kind
	for _, crd := range crds {
		if crd.Spec.Names.Kind == "LocationToken" || crd.Spec.Names.Kind == "Token" {
			continue // what locations/NAME/token and the hub's own tokens answer; no space has any
		}
		made, err := c.Compile(crd)
		if err != nil {
			return nil, err
		}
		for _, k := range made.Kinds() {
			if k.Resource == key.Summaries {
				k.Rows = ofSummary
			}
			own = append(own, k)
		}
	}
	return own, nil
}
