package custom

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/internal/hub/kinds/schemacompat"
)

// maxMeetings bounds what Meetings keep, in bytes (estimated).
const maxMeetings = 32 << 20

// Meetings are the definitions that objects written by others are checked against. Those that
// were used last are kept within a bound. They are safe for concurrent use.
type Meetings struct {
	known *lru[string, func() (*schemacompat.Definition, error)]
}

// NewMeetings makes Meetings that know none.
func NewMeetings() *Meetings {
	return &Meetings{newLRU[string, func() (*schemacompat.Definition, error)](maxMeetings)}
}

// Fit says why an object, as JSON, is not right where another definition is: the spec of a
// CRD, of which the hash is another for each. If the object is a definition itself, it says
// where the two contradict each other. The error is a *schemacompat.MisfitError unless something can't be
// read; nil: it is right.
func (m *Meetings) Fit(object []byte, isCRD bool, spec, hash string) error {
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
