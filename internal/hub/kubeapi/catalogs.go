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

// Catalogs returns the kinds of spaces and locations, as the present CRDs in the table define them.
type Catalogs struct {
	Kinds *registry.Registry
	Table *table.Table
}

// ForSpace returns the present kinds of a space.
func (c Catalogs) ForSpace(s key.Space) *kinds.Catalog {
	// An error is about one CRD, whose kinds are then missing.
	catalog, _ := c.Kinds.Catalog(s, c.Table.Snapshot())
	return catalog
}

// Defines reports whether a space still defines a kind with the same definition.
func (c Catalogs) Defines(s key.Space, kind *kinds.Kind) bool {
	// An error is about one CRD, whose kinds are then not found below.
	catalog, _ := c.Kinds.Catalog(s, c.Table.Snapshot())
	now, ok := catalog.Lookup(kind.GVR)
	return ok && now.Custom != nil && now.Custom.Hash() == kind.Custom.Hash()
}

// DefinedBy returns the keys of the rows by which a space defines a kind that is not built in:
// its CRD or, for a bound kind, the APIBinding with the provider's space, export and CRD.
func (c Catalogs) DefinedBy(s key.Space, kind *kinds.Kind) []string {
	r := v1alpha1.ExportedResource{Group: kind.GVK.Group, Resource: kind.Resource.Resource}
	snapshot := c.Table.Snapshot()
	// An error is about one CRD, whose kinds are then missing.
	catalog, _ := c.Kinds.Catalog(s, snapshot)
	owner := key.Object{Space: s, Identity: catalog.Owner(kind)}
	if owner.Resource != key.APIBindings {
		return []string{binding.DefinitionKey(s, r)}
	}
	b := binding.Read(snapshot.Get(owner.Key()))
	if b == nil { // does not happen: the catalog is of the same snapshot
		return []string{owner.Key()}
	}
	return []string{owner.Key(), b.Provider().Key(), b.ExportKey(), binding.DefinitionKey(b.Provider(), r)}
}

// anywhere returns a kind that a CRD of any space defines, or that any space has bound. It is for
// reads of all spaces, which return only metadata.
func (c Catalogs) anywhere(gvr schema.GroupVersionResource) (*kinds.Kind, bool) {
	snapshot := c.Table.Snapshot()
	definition := key.Identity{Resource: key.CRDs, Name: gvr.Resource + "." + gvr.Group}
	for _, s := range write.All(snapshot) {
		if snapshot.Get(key.Object{Space: s, Identity: definition}.Key()) == nil && !hasBindings(snapshot, s) {
			continue
		}
		// An error is about one CRD, whose kinds are then not found below.
		catalog, _ := c.Kinds.Catalog(s, snapshot)
		if kind, ok := catalog.Lookup(gvr); ok {
			return kind, true
		}
	}
	return nil, false
}

// ofLocation returns exactly the kinds of the objects in a location's view.
func (c Catalogs) ofLocation(l key.Location) *kinds.Catalog {
	var found []key.Object
	c.Table.AscendMembers(l, func(row *table.Row) (from string, more bool) {
		o, err := key.ParseObject(row.Key)
		if err != nil || !read.IsDesired(row, l) {
			return "", true
		}
		found = append(found, o)
		return key.After(key.ResourcePrefix(o.Space, o.Resource)), true
	})
	snapshot := c.Table.Snapshot()
	seen := map[key.Resource]bool{}
	var all []*kinds.Kind
	for _, o := range found {
		if seen[o.Resource] {
			continue
		}
		seen[o.Resource] = true
		// An error is about one CRD, whose kinds are then not found below.
		catalog, _ := c.Kinds.Catalog(o.Space, snapshot)
		if kind, ok := catalog.ForStorage(o.Resource); ok {
			all = append(all, kind)
		}
	}
	return kinds.NewCatalog(all, readOnly)
}

// hasBindings reports whether a space has any APIBinding.
func hasBindings(state *table.Snapshot, s key.Space) (found bool) {
	state.Ascend(key.ResourcePrefix(s, key.APIBindings), func(*table.Row) bool {
		found = true
		return false
	})
	return found
}
