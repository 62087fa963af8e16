package registry

import (
	"errors"
	"fmt"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// boundBy contains the resources that an APIBinding defines in its space.
type boundBy struct {
	entry *table.Entry
	// needs are the other rows that determine the resources.
	needs       []need
	owned       []kinds.Owned
	definitions []definedBy
}

// need is a row that was read: a nil entry means that it did not exist.
type need struct {
	key   string
	entry *table.Entry
}

// isCurrent reports whether all rows that determine the resources are unchanged.
func (b boundBy) isCurrent(state table.Reader) bool {
	return !slices.ContainsFunc(b.needs, func(n need) bool { return entryOf(state.Get(n.key)) != n.entry })
}

func entryOf(row *table.Row) *table.Entry {
	if row == nil {
		return nil
	}
	return row.Entry
}

// recordingReader adds the rows that are read to the needs of a binding.
type recordingReader struct {
	table.Reader
	binding *boundBy
}

func (n recordingReader) Get(k string) *table.Row {
	row := n.Reader.Get(k)
	if !slices.ContainsFunc(n.binding.needs, func(n need) bool { return n.key == k }) {
		n.binding.needs = append(n.binding.needs, need{k, entryOf(row)})
	}
	return row
}

// bind returns the resources of an APIBinding, from an older catalog if they are unchanged.
func (r *Registry) bind(e *table.Entry, state table.Reader, old *spaceCatalog) boundBy {
	if old != nil {
		i := slices.IndexFunc(old.bound, func(b boundBy) bool { return b.entry == e && b.isCurrent(state) })
		if i >= 0 {
			return old.bound[i]
		}
	}
	made := boundBy{entry: e}
	b := binding.Read(&table.Row{Entry: e})
	if b == nil {
		return made
	}
	for _, bound := range b.Status.Resources {
		crd, reason := b.Definition(recordingReader{state, &made}, bound)
		o := kinds.Owned{Owner: identityOf(e)}
		var d definedBy
		if crd != nil {
			d = r.provided(b.Provider(), crd, bound)
		}
		if d.definition == nil {
			o.Access, o.Why = kinds.Waiting, why(b, bound, reason, d.failed)
			d.definition, d.failed = r.outline(bound)
		}
		if d.definition == nil { // does not happen: the names are those of a valid CRD
			continue
		}
		if b.Entry.Meta.Deleting {
			o.Access = kinds.Terminating
		}
		o.Kinds = d.definition.Kinds()
		made.owned, made.definitions = append(made.owned, o), append(made.definitions, d)
	}
	return made
}

func why(b *binding.Binding, bound v1alpha1.BoundResource, reason string, failed error) string {
	if failed != nil {
		return failed.Error()
	}
	return b.Message(reason, bound.ExportedResource)
}

// provided returns the definition of a provider's CRD with the names of the bound resource. If these
// are the names of the CRD, the provider and its consumers share one definition.
func (r *Registry) provided(provider key.Space, row *table.Row, bound v1alpha1.BoundResource) definedBy {
	if known, ok := r.spaces.peek(provider); ok {
		i := slices.IndexFunc(known.rows, func(d definedBy) bool { return d.entry == row.Entry })
		if i >= 0 && known.rows[i].definition != nil && named(known.rows[i].definition.Kinds(), bound) {
			return known.rows[i]
		}
	}
	d := definedBy{entry: row.Entry}
	crd, err := custom.ReadStored(row.Value)
	if err != nil {
		d.failed = fmt.Errorf("decode %q: %w", row.Key, err)
		return d
	}
	names := binding.Names(bound)
	names.Categories = crd.Status().AcceptedNames.Categories
	crd.Status().AcceptedNames = names
	d.definition, d.failed = r.compiler.CompileStored(crd)
	if d.failed == nil && len(d.definition.Kinds()) == 0 {
		d.definition, d.failed = nil, errors.New("no version is served")
	}
	return d
}

// named reports whether kinds have the names of a bound resource.
func named(all []*kinds.Kind, bound v1alpha1.BoundResource) bool {
	return len(all) > 0 && all[0].Singular == bound.Singular && all[0].ListKind == bound.ListKind &&
		slices.Equal(all[0].ShortNames, bound.ShortNames)
}
