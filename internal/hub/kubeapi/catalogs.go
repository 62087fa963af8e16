package kubeapi

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Catalogs have the kinds of spaces and locations, as their CRDs in the table are now.
type Catalogs struct {
	Kinds *registry.Registry
	Table *table.Table
}

// Of has the kinds of a space as it is now.
func (c Catalogs) Of(s key.Space) *kinds.Catalog {
	// An error concerns a CRD; what it defines is not found then.
	catalog, _ := c.Kinds.Catalog(s, c.Table.Snapshot())
	return catalog
}

// Defines says whether a space still defines a kind with the same definition.
func (c Catalogs) Defines(s key.Space, kind *kinds.Kind) bool {
	// An error concerns a CRD; what it defines is not found below then.
	catalog, _ := c.Kinds.Catalog(s, c.Table.Snapshot())
	now, ok := catalog.Lookup(kind.GVR)
	return ok && now.Custom != nil && now.Custom.Hash() == kind.Custom.Hash()
}

// DefinedBy are the keys of the rows that say how a space defines a kind that is not built in:
// its CRD or, if it is bound, the APIBinding and what that binds.
func (c Catalogs) DefinedBy(s key.Space, kind *kinds.Kind) []string {
	r := v1alpha1.ExportedResource{Group: kind.GVK.Group, Resource: kind.Resource.Resource}
	snapshot := c.Table.Snapshot()
	// An error concerns a CRD; what it defines is not found then.
	catalog, _ := c.Kinds.Catalog(s, snapshot)
	owner := key.Object{Space: s, Identity: catalog.Owner(kind)}
	if owner.Resource != key.APIBindings {
		return []string{binding.DefinitionKey(s, r)}
	}
	b := binding.Read(snapshot.Get(owner.Key()))
	if b == nil { // does not happen: it is in the state of the catalog
		return []string{owner.Key()}
	}
	return []string{owner.Key(), b.Provider().Key(), b.ExportKey(), binding.DefinitionKey(b.Provider(), r)}
}

// anywhere finds a kind that some space's CRD defines, or some space has bound, for reads
// across all spaces, which show metadata only.
func (c Catalogs) anywhere(gvr schema.GroupVersionResource) (*kinds.Kind, bool) {
	snapshot := c.Table.Snapshot()
	definition := key.Identity{Resource: key.CRDs, Name: gvr.Resource + "." + gvr.Group}
	for _, s := range write.All(snapshot) {
		if snapshot.Get(key.Object{Space: s, Identity: definition}.Key()) == nil && !binds(snapshot, s) {
			continue
		}
		// An error concerns a CRD; what it defines is not found below then.
		catalog, _ := c.Kinds.Catalog(s, snapshot)
		if kind, ok := catalog.Lookup(gvr); ok {
			return kind, true
		}
	}
	return nil, false
}

// ofLocation has exactly the kinds of the objects in a location's view.
func (c Catalogs) ofLocation(l key.Location) *kinds.Catalog {
	var places []key.Object
	c.Table.AscendMembers(l, func(row *table.Row) (from string, more bool) {
		o, err := key.ParseObject(row.Key)
		if err != nil || !read.IsDesired(row, l) {
			return "", true
		}
		places = append(places, o)
		return key.After(key.ResourcePrefix(o.Space, o.Resource)), true
	})
	snapshot := c.Table.Snapshot()
	seen := map[key.Resource]bool{}
	var all []*kinds.Kind
	for _, o := range places {
		if seen[o.Resource] {
			continue
		}
		seen[o.Resource] = true
		// An error concerns a CRD; what it serves is not found below then.
		catalog, _ := c.Kinds.Catalog(o.Space, snapshot)
		if kind, ok := catalog.ForStorage(o.Resource); ok {
			all = append(all, kind)
		}
	}
	return kinds.NewCatalog(all, readOnly)
}

// binds says whether a space has any APIBinding.
func binds(state *table.Snapshot, s key.Space) (some bool) {
	state.Ascend(key.ResourcePrefix(s, key.APIBindings), func(*table.Row) bool {
		some = true
		return false
	})
	return some
}
