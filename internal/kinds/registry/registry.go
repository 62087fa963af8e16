// Package registry knows which kinds each space has: the built-in ones, Orrery's
// own, and those that its CRDs define in a state of the log.
//
// It keeps what it has made within a bound, and must never write.
package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/kinds/builtin"
	"orrery.dev/orrery/internal/kinds/custom"
	"orrery.dev/orrery/internal/table"
)

// Registry knows the kinds of all spaces. It is safe for concurrent use.
type Registry struct {
	compiler *custom.Compiler
	builtins []*kinds.Kind
	// root and plain are the catalogs of spaces without CRDs.
	root, plain *kinds.Catalog
	spaces      *catalogs
}

// New makes the built-in kinds and Orrery's own.
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
		if k.Resource == key.Locations { // they can be seen from everywhere
			return kinds.ReadOnly
		}
		return r.root.Access(k)
	})
	return r, nil
}

// rootOnly says that only root has a kind.
func rootOnly(k *kinds.Kind) bool { return k.Resource == key.Spaces }

// Builtin returns the catalog of a space that has no CRDs.
func (r *Registry) Builtin(s key.Space) *kinds.Catalog {
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
// A stored CRD that can't be compiled serves nothing, and does not affect others; the error
// names it and comes with the catalog of the rest.
func (r *Registry) Catalog(s key.Space, state table.Reader) (*kinds.Catalog, error) {
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

// Unknown makes a kind of which nothing is known but its names: its objects are what is said of
// them. It fails if a name can't be one.
func (r *Registry) Unknown(gvr schema.GroupVersionResource, kind string, namespaced bool) (*kinds.Kind, error) {
	if err := kinds.CheckKind(kind); err != nil {
		return nil, err
	}
	if problems := validation.IsDNS1035Label(gvr.Version); len(problems) > 0 {
		return nil, fmt.Errorf("version %q: %s", gvr.Version, strings.Join(problems, "; "))
	}
	anything := true
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: gvr.Group, Scope: apiextensionsv1.ClusterScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: gvr.Resource, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: gvr.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything},
			},
		}},
	}}
	crd.Name = gvr.Resource + "." + gvr.Group
	if namespaced {
		crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	definition, err := r.compiler.Compile(crd)
	if err != nil {
		return nil, fmt.Errorf("make an unknown kind %s: %w", gvr, err)
	}
	k := *definition.Kinds()[0] // a CRD may define the same
	k.Unknown = true
	return &k, nil
}

// Forget frees what is kept of a space that is gone.
func (r *Registry) Forget(s key.Space) { r.spaces.drop(s) }

// make makes the catalog of a space, reusing what is the same in an older one.
func (r *Registry) make(s key.Space, entries []*table.Entry, old *spaceCatalog) *spaceCatalog {
	made := &spaceCatalog{rows: make([]definedBy, 0, len(entries))}
	var defined []*kinds.Kind
	access := map[*kinds.Kind]kinds.Access{}
	var failed []error
	for _, e := range entries {
		d := r.read(e, old)
		made.rows = append(made.rows, d)
		if d.failed != nil {
			failed = append(failed, d.failed)
		}
		if d.definition == nil {
			continue
		}
		for _, k := range d.definition.Kinds() {
			defined = append(defined, k)
			access[k] = d.access
		}
	}
	made.failed = errors.Join(failed...)
	made.catalog = r.Builtin(s).With(defined, func(k *kinds.Kind) kinds.Access { return access[k] })
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
			d.access = kinds.Terminating
		}
	}
	if established {
		d.definition, d.failed = r.compiler.Compile(crd)
	}
	return d
}
