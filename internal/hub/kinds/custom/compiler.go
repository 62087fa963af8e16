// Package custom makes kinds of CRDs: how objects are decoded, pruned, defaulted,
// validated, merged and described by what a CRD says. CRDs that say the same
// share one result, and what is heavy is kept within a bound.
//
// It must not know which space has a CRD, nor call its webhooks.
package custom

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/util/managedfields"
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

// maxStored is how many stored texts a Compiler knows the definitions of. One takes about 300 bytes.
const maxStored = 8 << 10

// kindWeight is about what a kind takes, in bytes, apart from its artefacts.
const kindWeight = 8 << 10

// Compiler makes kinds of CRDs. CRDs that say the same share one result. It is
// safe for concurrent use.
type Compiler struct {
	machinery
	made       atomic.Uint64 // definitions so far
	converters *conversion.CRConverterFactory
	// definitions keeps the most recently used ones. An evicted definition is found in alive as long
	// as any of its kinds is in use, so that there is never a second one.
	definitions *lru[string, *Definition]
	alive       sync.Map // of weak.Pointer[Definition], by hash
	artefacts   *lru[string, *artefacts]
	// stored maps hashes of stored CRDs to the hashes of their definitions.
	stored *lru[[sha256.Size]byte, string]
}

// sharedArtefacts are the artefacts that all compilers with the default limits keep: they follow from
// the content of a CRD alone, so a process with several hubs compiles each CRD once, within one bound.
var sharedArtefacts = sync.OnceValue(func() *lru[string, *artefacts] {
	return newLRU[string, *artefacts](DefaultLimits().Artefacts)
})

// NewCompiler makes a compiler that knows no definitions.
func NewCompiler(limits Limits) (*Compiler, error) {
	if limits.Definitions <= 0 || limits.Artefacts <= 0 {
		return nil, errors.New("make CRD compiler: limits must be positive")
	}
	converters, err := conversion.NewCRConverterFactory(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make CRD compiler: %w", err)
	}
	shared, err := newMachinery()
	if err != nil {
		return nil, fmt.Errorf("make CRD compiler: %w", err)
	}
	kept := sharedArtefacts()
	if limits != DefaultLimits() {
		kept = newLRU[string, *artefacts](limits.Artefacts)
	}
	return &Compiler{
		machinery:   shared,
		converters:  converters,
		definitions: newLRU[string, *Definition](limits.Definitions),
		artefacts:   kept,
		stored:      newLRU[[sha256.Size]byte, string](maxStored),
	}, nil
}

// Compile makes a kind of each served version of a CRD. It does not look at the CRD's
// conditions, and compiles no schema: use Check for a CRD that may be wrong.
func (c *Compiler) Compile(crd *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	made := canonical(crd)
	content, err := pack(made, crd)
	if err != nil {
		return nil, err
	}
	c.stored.get(content.text, 1, func() string { return content.hash })
	if d := c.known(content.hash); d != nil {
		return d, nil
	}
	d, err := c.define(made, content.data, content.hash)
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
	return c.keep(d), nil
}

// define makes the light part of a definition from a CRD.
func (c *Compiler) define(crd *apiextensionsv1.CustomResourceDefinition, data []byte, hash string) (*Definition, error) {
	d := &Definition{
		machinery:     &c.machinery,
		cache:         c.artefacts,
		hash:          hash,
		id:            c.made.Add(1),
		heavy:         artefactsWeight(data),
		group:         crd.Spec.Group,
		names:         *crd.Spec.Names.DeepCopy(),
		namespaced:    crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		preserve:      crd.Spec.PreserveUnknownFields,
		replicasPaths: managedfields.ResourcePathMappings{},
	}
	for _, v := range crd.Spec.Versions {
		v.Schema = nil
		v = *v.DeepCopy()
		d.versions = append(d.versions, v)
		if v.Storage {
			d.storage = v.Name
		}
		d.replicasPaths[d.gv(v.Name).String()] = replicasPath(v.Subresources)
	}
	if d.storage == "" {
		return nil, fmt.Errorf("compile CRD %q: no version is stored", crd.Name)
	}
	var err error
	if d.source, err = compress(data); err != nil {
		return nil, fmt.Errorf("pack CRD %q: %w", crd.Name, err)
	}
	if d.convertor, d.unsafeConvertor, err = c.converters.NewConverter(crd); err != nil {
		return nil, fmt.Errorf("compile CRD %q: %w", crd.Name, err)
	}
	return d, nil
}

// compressors are reused: a new one takes most of a megabyte.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // it fails only for a level that does not exist
	return w
}}

// compress compresses data at the lowest level. Each start of a hub waits for it, and the standard
// level takes several times as long for a sixth less.
func compress(data []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&packed)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(packed.Bytes()), nil
}

// known finds a definition that is in use or was used lately.
func (c *Compiler) known(hash string) *Definition {
	if d, ok := c.definitions.peek(hash); ok {
		return d
	}
	p, ok := c.alive.Load(hash)
	if !ok {
		return nil
	}
	d := p.(weak.Pointer[Definition]).Value()
	if d == nil {
		return nil
	}
	return c.definitions.get(hash, d.Weight(), func() *Definition { return d })
}

// keep makes a definition known. If two callers have compiled the same at once, both get
// the first one's.
func (c *Compiler) keep(d *Definition) *Definition {
	mine := weak.Make(d)
	for {
		p, loaded := c.alive.LoadOrStore(d.hash, mine)
		if !loaded {
			hash := d.hash
			runtime.AddCleanup(d, func(p weak.Pointer[Definition]) { c.alive.CompareAndDelete(hash, p) }, mine)
			break
		}
		if first := p.(weak.Pointer[Definition]).Value(); first != nil {
			d = first
			break
		}
		c.alive.CompareAndDelete(d.hash, p)
	}
	return c.definitions.get(d.hash, d.Weight(), func() *Definition { return d })
}

// Check compiles everything in a CRD and reports what is wrong with it. It ends between two parts
// when its context does.
func (c *Compiler) Check(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	d, err := c.Compile(crd)
	if err != nil {
		return err
	}
	compiled := d.artefacts()
	defer compiled.source.hold()()
	for _, v := range d.versions {
		if !v.Served {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("check CRD %q: %w", d.name(), err)
		}
		if _, err := compiled.structural(); err != nil {
			return err
		}
		if _, err := compiled.strategies[v.Name](); err != nil {
			return err
		}
		if _, err := compiled.types(); err != nil {
			return err
		}
	}
	return nil
}
