// Package binding evaluates the APIBindings of spaces in a state of the log: the resources of each
// binding, the definitions by which they are read and written, and the claims in force. It is a
// function of that state.
//
// It must never write, compile a definition, or depend on the user of a request.
package binding

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Binding is an APIBinding in a state of the log. It is immutable.
type Binding struct {
	Space key.Space
	Entry *table.Entry
	v1alpha1.APIBinding
}

// Read decodes the row of an APIBinding. It returns nil for other rows, and for an APIBinding that is
// meant for a hub below this one.
func Read(row *table.Row) *Binding {
	if row == nil || v1alpha1.IsForBelow(row.Meta.Labels) {
		return nil
	}
	s, resource, _, ok := key.Split(row.Key)
	if !ok || resource != key.APIBindings {
		return nil
	}
	b := &Binding{Space: s, Entry: row.Entry}
	if json.Unmarshal(row.Value, &b.APIBinding) != nil {
		return nil // it can't be written like this
	}
	return b
}

// InSpace returns the bindings of a space, by name.
func InSpace(state table.Reader, s key.Space) (all []*Binding) {
	state.Ascend(key.ResourcePrefix(s, key.APIBindings), func(row *table.Row) bool {
		if b := Read(row); b != nil {
			all = append(all, b)
		}
		return true
	})
	return all
}

// ExportKey returns the key of the bound APIExport.
func (b *Binding) ExportKey() string {
	return key.Object{Space: b.Provider(), Identity: key.Identity{Resource: key.APIExports, Name: b.Spec.Export.Name}}.Key()
}

// Provider returns the provider's space.
func (b *Binding) Provider() key.Space { return key.Space(b.Spec.Export.Space) }

// Bound returns a bound resource; ok is false if the binding does not have it.
func (b *Binding) Bound(r key.Resource) (bound v1alpha1.BoundResource, ok bool) {
	i := slices.IndexFunc(b.Status.Resources, func(other v1alpha1.BoundResource) bool {
		return key.NewResource(other.Group, other.Resource) == r
	})
	if i < 0 {
		return bound, false
	}
	return b.Status.Resources[i], true
}

// Export returns the bound APIExport. It returns nil and the reason if the APIExport does not exist,
// or if its space was deleted and created again.
func (b *Binding) Export(state table.Reader) (export *v1alpha1.APIExport, reason string) {
	if reason = b.Provided(state); reason != "" {
		return nil, reason
	}
	if export = ReadExport(state.Get(b.ExportKey())); export == nil {
		return nil, v1alpha1.ReasonNoSuchExport
	}
	return export, ""
}

// ReadExport decodes the row of an APIExport; it returns nil if the row has none that can be bound.
func ReadExport(row *table.Row) *v1alpha1.APIExport {
	if row == nil || row.Meta.Deleting || v1alpha1.IsForBelow(row.Meta.Labels) {
		return nil
	}
	export := &v1alpha1.APIExport{}
	if json.Unmarshal(row.Value, export) != nil {
		return nil // it can't be written like this
	}
	return export
}

// Provided returns the reason why the provider's space is not the bound one; empty if it is. A binding
// without bound resources accepts the present space.
func (b *Binding) Provided(state table.Reader) (reason string) {
	if b.Provider() == key.Root {
		return ""
	}
	row := state.Get(b.Provider().Key())
	switch {
	case row == nil || row.Meta.Deleting:
		return v1alpha1.ReasonNoSuchSpace
	case b.Status.SpaceUID != "" && b.Status.SpaceUID != row.Meta.UID:
		return v1alpha1.ReasonAnotherSpace
	}
	return ""
}

// Definition returns the row of the CRD by which objects of a bound resource are written. It returns
// nil and the reason if they can't be written now; they can still be read, by the versions of the
// BoundResource, and deleted.
func (b *Binding) Definition(state table.Reader, bound v1alpha1.BoundResource) (crd *table.Row, reason string) {
	export, reason := b.Export(state)
	if export == nil {
		return nil, reason
	}
	if !slices.Contains(export.Spec.Resources, bound.ExportedResource) {
		return nil, v1alpha1.ReasonNotExported
	}
	crd = state.Get(DefinitionKey(b.Provider(), bound.ExportedResource))
	switch {
	case !Defines(crd):
		return nil, v1alpha1.ReasonNoDefinition
	case !fits(bound, crd):
		return nil, v1alpha1.ReasonIncompatible
	}
	return crd, ""
}

// DefinitionKey returns the key of the CRD that defines an exported resource.
func DefinitionKey(provider key.Space, r v1alpha1.ExportedResource) string {
	return key.Object{Space: provider, Identity: key.Identity{Resource: key.CRDs, Name: r.Resource + "." + r.Group}}.Key()
}

// Defines reports whether a CRD defines a resource: it is established, serves a version, and is not
// being deleted.
func Defines(crd *table.Row) bool {
	if crd == nil || crd.Meta.Deleting {
		return false
	}
	m := gjson.GetManyBytes(crd.Value, `status.conditions.#(type=="Established").status`, "spec.versions.#(served==true).name")
	return m[0].String() == "True" && m[1].Exists()
}

// fits reports whether a CRD still has the kind and the scope with which a resource was bound.
func fits(bound v1alpha1.BoundResource, crd *table.Row) bool {
	m := gjson.GetManyBytes(crd.Value, "spec.names.kind", "spec.scope")
	return m[0].String() == bound.Kind && (m[1].String() == "Namespaced") == bound.Namespaced
}

// Claims are the claims that are in force: accepted, and no wider than they were then. They
// are what was accepted, as far as the export still claims it: of a claim that has changed
// only what both versions have, objects and verbs.
func (b *Binding) Claims(export *v1alpha1.APIExport) (all []Claim) {
	for _, d := range b.Spec.Claims {
		accepted, now := b.Accepted(d.Group, d.Resource), ClaimOf(export.Spec.Claims, d.Group, d.Resource)
		if accepted != nil && now != nil {
			all = append(all, newClaim(*accepted, *now))
		}
	}
	return all
}

// Accepted is the claim of a resource that is accepted, as it was claimed then; nil if none is.
func (b *Binding) Accepted(group, resource string) *v1alpha1.APIClaim {
	accepts := slices.ContainsFunc(b.Spec.Claims, func(d v1alpha1.ClaimDecision) bool {
		return d.Group == group && d.Resource == resource && d.State == v1alpha1.ClaimAccepted
	})
	if !accepts {
		return nil
	}
	return ClaimOf(b.Status.Claims, group, resource)
}

// ClaimOf is the claim of a resource; nil if there is none.
func ClaimOf(all []v1alpha1.APIClaim, group, resource string) *v1alpha1.APIClaim {
	i := slices.IndexFunc(all, func(c v1alpha1.APIClaim) bool { return c.Group == group && c.Resource == resource })
	if i < 0 {
		return nil
	}
	return &all[i]
}
