package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// Registry knows the kinds of all spaces. It is safe for concurrent use.
type Registry struct {
	compiler *Compiler
	builtins []*Kind
	// root and plain are the catalogs of spaces without CRDs.
	root, plain *Catalog
	spaces      *catalogs
}

// spaceCatalog is a catalog and what it was made of. A row is known by its
// entry: the same entry always says the same.
type spaceCatalog struct {
	catalog *Catalog
	rows    []definedBy
	// failed is why some rows define nothing.
	failed error
}

type definedBy struct {
	entry  *table.Entry
	kinds  []*Kind
	access Access
	failed error
}

// NewRegistry compiles the built-in kinds and Orrery's own.
func NewRegistry() (*Registry, error) {
	compiler, err := NewCompiler(DefaultLimits())
	if err != nil {
		return nil, err
	}
	builtins, err := Builtins()
	if err != nil {
		return nil, err
	}
	orrery, err := Orrery(compiler)
	if err != nil {
		return nil, err
	}
	asked, err := askedKinds()
	if err != nil {
		return nil, err
	}
	r := &Registry{compiler: compiler, builtins: slices.Concat(builtins, orrery, asked), spaces: newCatalogs(catalogBytes)}
	r.root = NewCatalog(r.builtins, func(k *Kind) Access {
		if slices.Contains(asked, k) {
			return Asked
		}
		return ReadWrite
	})
	r.plain = NewCatalog(slices.DeleteFunc(slices.Clone(r.builtins), rootOnly), func(k *Kind) Access {
		if k.Resource == key.Locations { // they can be seen from everywhere
			return ReadOnly
		}
		return r.root.Access(k)
	})
	return r, nil
}

// rootOnly is for kinds that no space but root has.
func rootOnly(k *Kind) bool { return k.Resource == key.Spaces }

// Compiler compiles CRDs for all spaces.
func (r *Registry) Compiler() *Compiler { return r.compiler }

// Builtin returns the catalog of a space that has no CRDs.
func (r *Registry) Builtin(s key.Space) *Catalog {
	if s == key.Root {
		return r.root
	}
	return r.plain
}

// Catalog returns the catalog of a space in a state of the log. It is a
// function of the space's CRDs there: only those that are established count,
// and those that are being deleted are Terminating. Spaces without CRDs share
// one catalog; others keep theirs as long as their CRDs stay as they are.
//
// A stored CRD that can't be compiled serves nothing, and takes nothing else
// along; the error names it and comes with the catalog of the rest.
func (r *Registry) Catalog(s key.Space, state table.Reader) (*Catalog, error) {
	var entries []*table.Entry
	state.Ascend(key.ResourcePrefix(s, key.CRDs), func(row *table.Row) bool {
		entries = append(entries, row.Entry)
		return true
	})
	if len(entries) == 0 {
		return r.Builtin(s), nil
	}
	known, ok := r.spaces.peek(s)
	if ok && slices.EqualFunc(known.rows, entries, func(d definedBy, e *table.Entry) bool { return d.entry == e }) {
		return known.catalog, known.failed
	}
	made := r.make(s, entries, known)
	r.spaces.put(s, made)
	return made.catalog, made.failed
}

// Forget frees what is kept of a space that is gone.
func (r *Registry) Forget(s key.Space) { r.spaces.drop(s) }

// make makes the catalog of a space, taking from an older one what is the same.
func (r *Registry) make(s key.Space, entries []*table.Entry, old *spaceCatalog) *spaceCatalog {
	made := &spaceCatalog{rows: make([]definedBy, 0, len(entries))}
	var kinds []*Kind
	access := map[*Kind]Access{}
	var failed []error
	for _, e := range entries {
		d := r.read(e, old)
		made.rows = append(made.rows, d)
		if d.failed != nil {
			failed = append(failed, d.failed)
		}
		for _, k := range d.kinds {
			kinds = append(kinds, k)
			access[k] = d.access
		}
	}
	made.failed = errors.Join(failed...)
	made.catalog = newCatalog(r.Builtin(s), kinds, func(k *Kind) Access { return access[k] })
	return made
}

func (r *Registry) read(e *table.Entry, old *spaceCatalog) definedBy {
	if old != nil {
		i := slices.IndexFunc(old.rows, func(d definedBy) bool { return d.entry == e })
		if i >= 0 {
			return old.rows[i]
		}
	}
	d := definedBy{entry: e}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(e.Value, crd); err != nil {
		d.failed = fmt.Errorf("decode %q: %w", e.Key, err)
		return d
	}
	established := false
	for _, c := range crd.Status.Conditions {
		if c.Status != apiextensionsv1.ConditionTrue {
			continue
		}
		switch c.Type {
		case apiextensionsv1.Established:
			established = true
		case apiextensionsv1.Terminating:
			d.access = Terminating
		}
	}
	if established {
		d.kinds, d.failed = r.compiler.Compile(crd)
	}
	return d
}
