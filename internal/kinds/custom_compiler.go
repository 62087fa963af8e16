package kinds

import (
	"errors"
	"fmt"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
)

// Limits bounds what a Compiler keeps.
type Limits struct {
	// Definitions bounds the light part of CRDs, in bytes (estimated).
	Definitions int64
	// Artefacts bounds the heavy part, in bytes of the CRDs' JSON: schemas,
	// validators and merge rules take about ten times as much.
	Artefacts int64
}

// DefaultLimits fit a hub of a few hundred different CRDs.
func DefaultLimits() Limits {
	return Limits{Definitions: 64 << 20, Artefacts: 16 << 20}
}

// kindWeight is about what a kind takes, in bytes, apart from its artefacts.
const kindWeight = 8 << 10

// maxMerges is how many documents of many megabytes are made at once.
const maxMerges = 2

// Compiler makes kinds of CRDs. CRDs that say the same share one result. It is
// safe for concurrent use.
type Compiler struct {
	customMachinery
	// merges bounds how many large documents are made at once.
	merges      chan struct{}
	made        atomic.Uint64 // definitions so far
	converters  *conversion.CRConverterFactory
	definitions *lru[string, []*Kind]
	artefacts   *lru[string, *artefacts]
}

// NewCompiler makes a compiler with empty caches.
func NewCompiler(limits Limits) (*Compiler, error) {
	if limits.Definitions <= 0 || limits.Artefacts <= 0 {
		return nil, errors.New("make CRD compiler: limits must be positive")
	}
	converters, err := conversion.NewCRConverterFactory(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make CRD compiler: %w", err)
	}
	machinery, err := newCustomMachinery()
	if err != nil {
		return nil, fmt.Errorf("make CRD compiler: %w", err)
	}
	return &Compiler{
		customMachinery: machinery,
		merges:          make(chan struct{}, maxMerges),
		converters:      converters,
		definitions:     newLRU[string, []*Kind](limits.Definitions),
		artefacts:       newLRU[string, *artefacts](limits.Artefacts),
	}, nil
}

// Compile returns a kind for each version of a CRD that is served, in the order
// of the CRD. It does not look at the CRD's conditions, and compiles no schema:
// use Check for a CRD that may be wrong.
func (c *Compiler) Compile(crd *apiextensionsv1.CustomResourceDefinition) ([]*Kind, error) {
	crd = canonical(crd)
	data, hash, err := pack(crd)
	if err != nil {
		return nil, err
	}
	if kinds, ok := c.definitions.peek(hash); ok {
		return kinds, nil
	}
	d, err := c.define(crd, data, hash)
	if err != nil {
		return nil, err
	}
	var kinds []*Kind
	for _, v := range d.versions {
		if !v.Served {
			continue
		}
		k, err := d.kind(v)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	// Of two that compiled the same at once, both get the first one's kinds.
	weight := int64(len(d.source) + len(kinds)*kindWeight)
	return c.definitions.get(hash, weight, func() []*Kind { return kinds }), nil
}

// Check compiles everything in a CRD and says what is wrong with it.
func (c *Compiler) Check(crd *apiextensionsv1.CustomResourceDefinition) error {
	kinds, err := c.Compile(crd)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if _, err := k.Custom.Structural(); err != nil {
			return err
		}
		if _, err := k.Custom.strategies(); err != nil {
			return err
		}
		if _, err := k.Custom.def.artefacts().types(); err != nil {
			return err
		}
	}
	return nil
}
