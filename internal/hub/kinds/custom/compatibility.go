package custom

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/internal/hub/kinds/schemacompat"
)

// maxDefinitions is the maximum estimated size in bytes of the definitions that a Compatibility keeps.
const maxDefinitions = 32 << 20

// Compatibility checks objects by definitions of other spaces. It caches the definitions that were used
// last, of bounded total size. It is safe for concurrent use.
type Compatibility struct {
	known *lru[string, func() (*schemacompat.Definition, error)]
}

// NewCompatibility returns a Compatibility without definitions.
func NewCompatibility() *Compatibility {
	return &Compatibility{newLRU[string, func() (*schemacompat.Definition, error)](maxDefinitions)}
}

// Fit returns an error if an object, as JSON, is invalid by a definition of another space: the spec of
// a CRD, with a hash that identifies it. If the object is a CRD itself, Fit returns an error if the two
// definitions contradict each other. The error is a *schemacompat.MisfitError, unless the object or the
// definition can't be read.
func (m *Compatibility) Fit(object []byte, isCRD bool, spec, hash string) error {
	there, err := m.known.get(hash, artefactsWeight([]byte(spec)), func() func() (*schemacompat.Definition, error) {
		return sync.OnceValues(func() (*schemacompat.Definition, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := json.Unmarshal([]byte(spec), &crd.Spec); err != nil {
				return nil, fmt.Errorf("read another space's definition: %w", err)
			}
			return schemacompat.New(crd), nil
		})
	})()
	if err != nil {
		return err
	}
	var misfit *schemacompat.MisfitError
	if isCRD {
		here := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(object, here); err != nil {
			return fmt.Errorf("read the definition: %w", err)
		}
		misfit = schemacompat.Contradiction(there.CRD(), here)
	} else {
		misfit, err = there.Fit(object)
	}
	if err != nil {
		return err
	}
	if misfit != nil {
		return misfit
	}
	return nil
}
