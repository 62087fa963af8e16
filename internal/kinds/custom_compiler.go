package kinds

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
)

// Limits bounds what a Compiler keeps.
type Limits struct {
	// Definitions bounds the light part of CRDs, in bytes (estimated).
	Definitions int64
	// Artefacts bounds the heavy part, in bytes (estimated): schemas, validators,
	// merge rules and documents.
	Artefacts int64
}

// DefaultLimits fit a hub of a few hundred different CRDs.
func DefaultLimits() Limits {
	return Limits{Definitions: 64 << 20, Artefacts: 160 << 20}
}

// What BenchmarkMemory finds that artefacts take for each byte of a CRD's JSON,
// and for each of its rules besides.
const (
	byteWeight = 16
	ruleWeight = 64 << 10
)

// artefactsWeight estimates what the artefacts of a CRD, as JSON, will take.
func artefactsWeight(data []byte) int64 {
	return int64(len(data))*byteWeight + int64(bytes.Count(data, []byte(`"rule":`)))*ruleWeight
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
	merges     chan struct{}
	made       atomic.Uint64 // definitions so far
	converters *conversion.CRConverterFactory
	// definitions keeps what was used last. What it has let go of is found in
	// alive as long as somebody has a kind of it: so there is never a second one.
	definitions *lru[string, *definition]
	alive       sync.Map // of weak.Pointer[definition], by hash
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
		definitions:     newLRU[string, *definition](limits.Definitions),
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
	if d := c.known(hash); d != nil {
		return d.kinds, nil
	}
	d, err := c.define(crd, data, hash)
	if err != nil {
		return nil, err
	}
	for _, v := range d.versions {
		if !v.Served {
			continue
		}
		k, err := d.kind(v)
		if err != nil {
			return nil, err
		}
		d.kinds = append(d.kinds, k)
	}
	return c.keep(d).kinds, nil
}

// known finds a definition that is in use or was used lately.
func (c *Compiler) known(hash string) *definition {
	if d, ok := c.definitions.peek(hash); ok {
		return d
	}
	p, ok := c.alive.Load(hash)
	if !ok {
		return nil
	}
	d := p.(weak.Pointer[definition]).Value()
	if d == nil {
		return nil
	}
	return c.definitions.get(hash, d.weight(), func() *definition { return d })
}

// keep makes a definition known. Of two that compiled the same at once, both
// get the first one's.
func (c *Compiler) keep(d *definition) *definition {
	mine := weak.Make(d)
	for {
		p, loaded := c.alive.LoadOrStore(d.hash, mine)
		if !loaded {
			hash := d.hash
			runtime.AddCleanup(d, func(p weak.Pointer[definition]) { c.alive.CompareAndDelete(hash, p) }, mine)
			break
		}
		if first := p.(weak.Pointer[definition]).Value(); first != nil {
			d = first
			break
		}
		c.alive.CompareAndDelete(d.hash, p)
	}
	return c.definitions.get(d.hash, d.weight(), func() *definition { return d })
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
