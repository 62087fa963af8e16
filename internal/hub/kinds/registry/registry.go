// Package registry returns the kinds of each space: the built-in ones, Orrery's own, and those that
// its CRDs define or its APIBindings bind in a state of the log.
//
// It caches catalogs of bounded total size, and must never write.
package registry

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/builtin"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Registry returns the kinds of all spaces. It is safe for concurrent use.
type Registry struct {
	compiler *custom.Compiler
	builtins []*kinds.Kind
	// root and plain are the catalogs of spaces without CRDs.
	root, plain *kinds.Catalog
	spaces      *catalogs
	// isReset is true from a Reset of the table until the next Observe.
	isReset atomic.Bool
}

var _ table.Observer = (*Registry)(nil)

// New returns a Registry with the built-in kinds and Orrery's own.
func New() (*Registry, error) {
	compiler, err := custom.NewCompiler(custom.DefaultLimits())
	if err != nil {
		return nil, err
	}
	builtins, err := builtin.Kinds(time.Now)
	if err != nil {
		return nil, err
	}
	own, err := ownKinds(compiler)
	if err != nil {
		return nil, err
	}
	reviews, err := builtin.Reviews(time.Now)
	if err != nil {
		return nil, err
	}
	r := &Registry{compiler: compiler, builtins: slices.Concat(builtins, own, reviews), spaces: newCatalogs(catalogBytes)}
	r.root = kinds.NewCatalog(r.builtins, func(k *kinds.Kind) kinds.Access {
		if slices.Contains(reviews, k) {
			return kinds.Review
		}
		return kinds.ReadWrite
	})
	r.plain = kinds.NewCatalog(slices.DeleteFunc(slices.Clone(r.builtins), rootOnly), func(k *kinds.Kind) kinds.Access {
		if k.Resource == key.Locations { // every space can read them
			return kinds.ReadOnly
		}
		return r.root.Access(k)
	})
	return r, nil
}

// rootOnly reports whether only space root has a kind.
func rootOnly(k *kinds.Kind) bool { return k.Resource == key.Spaces }

// Builtin returns the catalog of a space that has no CRDs.
func (r *Registry) Builtin(s key.Space) *kinds.Catalog {
	if s == key.Root {
		return r.root
	}
	return r.plain
}

// Catalog returns the catalog of a space in a state of the log. It is a function of the
// space's CRDs and APIBindings there, and of what these bind: CRDs count that are
// established, and those that are being deleted are Terminating. Spaces without any share
// one catalog; others keep theirs as long as all of that stays as it is.
//
// A stored CRD that can't be compiled serves nothing, and does not affect others; the error
// names it and comes with the catalog of the rest.
func (r *Registry) Catalog(s key.Space, state table.Reader) (*kinds.Catalog, error) {
	entries, bindings := entriesOf(state, s, key.CRDs), entriesOf(state, s, key.APIBindings)
	if len(entries) == 0 && len(bindings) == 0 {
		return r.Builtin(s), nil
	}
	known, ok := r.spaces.peek(s)
	if ok && slices.EqualFunc(known.rows, entries, func(d definedBy, e *table.Entry) bool { return d.entry == e }) &&
		slices.EqualFunc(known.bound, bindings, func(b boundBy, e *table.Entry) bool { return b.entry == e && b.isCurrent(state) }) {
		return known.catalog, known.failed
	}
	made := r.make(s, state, entries, bindings, known)
	r.spaces.put(s, made)
	return made.catalog, made.failed
}

func entriesOf(state table.Reader, s key.Space, r key.Resource) (entries []*table.Entry) {
	state.Ascend(key.ResourcePrefix(s, r), func(row *table.Row) bool {
		entries = append(entries, row.Entry)
		return true
	})
	return entries
}

// Reset implements table.Observer. The catalogs stay, since a Catalog compares its rows.
func (r *Registry) Reset() { r.isReset.Store(true) }

// Observe implements table.Observer: it removes the catalogs of deleted spaces from the cache. Each hub observes
// deletions, whether or not it is elected to do them.
func (r *Registry) Observe(_ int64, changes []table.Change) {
	var present map[key.Space]struct{}
	if r.isReset.CompareAndSwap(true, false) { // the changes are the whole state
		present = map[key.Space]struct{}{key.Root: {}}
	}
	for _, c := range changes {
		in, resource, name, ok := key.Split(c.Row().Key)
		switch {
		case !ok || in != key.Root || resource != key.Spaces:
		case c.Cur == nil:
			r.spaces.drop(key.Space(name))
		case present != nil:
			present[key.Space(name)] = struct{}{}
		}
	}
	if present != nil {
		r.spaces.keep(present)
	}
}

// make returns the catalog of a space, with the unchanged definitions of an older catalog.
func (r *Registry) make(s key.Space, state table.Reader, entries, bindings []*table.Entry, old *spaceCatalog) *spaceCatalog {
	made := &spaceCatalog{rows: make([]definedBy, 0, len(entries))}
	var all []kinds.Owned
	var failed []error
	for _, e := range entries {
		d := r.read(e, old)
		made.rows = append(made.rows, d)
		if d.failed != nil {
			failed = append(failed, d.failed)
		}
		if d.definition != nil {
			all = append(all, kinds.Owned{Kinds: d.definition.Kinds(), Access: d.access, Owner: identityOf(e)})
		}
	}
	for _, e := range bindings {
		b := r.bind(e, state, old)
		made.bound = append(made.bound, b)
		all = append(all, b.owned...)
	}
	made.failed = errors.Join(failed...)
	made.catalog = r.Builtin(s).WithOwned(all)
	return made
}

func identityOf(e *table.Entry) key.Identity {
	o, err := key.ParseObject(e.Key)
	if err != nil { // does not happen: the entry was found by an object's key
		return key.Identity{}
	}
	return o.Identity
}

func (r *Registry) read(e *table.Entry, old *spaceCatalog) definedBy {
	if old != nil {
		i := slices.IndexFunc(old.rows, func(d definedBy) bool { return d.entry == e })
		if i >= 0 {
			return old.rows[i]
		}
	}
	d := definedBy{entry: e}
	crd, err := custom.ReadStored(e.Value)
	if err != nil {
		d.failed = fmt.Errorf("decode %q: %w", e.Key, err)
		return d
	}
	established := false
	for _, c := range crd.Status().Conditions {
		if c.Status != apiextensionsv1.ConditionTrue {
			continue
		}
		switch c.Type {
		case apiextensionsv1.Established:
			established = true
		case apiextensionsv1.Terminating:
			d.access = kinds.Terminating
		}
	}
	if established {
		d.definition, d.failed = r.compiler.CompileStored(crd)
	}
	return d
}
