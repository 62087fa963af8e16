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

// boundBy is what a space has by an APIBinding.
type boundBy struct {
	entry *table.Entry
	// needs are the rows besides that it was made of.
	needs       []need
	owned       []kinds.Owned
	definitions []definedBy
}

// need is a row that was looked at: a nil entry means that there was none.
type need struct {
	key   string
	entry *table.Entry
}

// stands says that all that it was made of is still the same.
func (b boundBy) stands(state table.Reader) bool {
	return !slices.ContainsFunc(b.needs, func(n need) bool { return entryOf(state.Get(n.key)) != n.entry })
}

func entryOf(row *table.Row) *table.Entry {
	if row == nil {
		return nil
	}
	return row.Entry
}

// noting notes which rows are looked at.
type noting struct {
	table.Reader
	of *boundBy
}

func (n noting) Get(k string) *table.Row {
	row := n.Reader.Get(k)
	if !slices.ContainsFunc(n.of.needs, func(n need) bool { return n.key == k }) {
		n.of.needs = append(n.of.needs, need{k, entryOf(row)})
	}
	return row
}

// bind makes what a space has by an APIBinding, unless an older catalog has it.
func (r *Registry) bind(e *table.Entry, state table.Reader, old *spaceCatalog) boundBy {
	if old != nil {
		i := slices.IndexFunc(old.bound, func(b boundBy) bool { return b.entry == e && b.stands(state) })
		if i >= 0 {
			return old.bound[i]
		}
	}
	made := boundBy{entry: e}
	b := binding.Read(&table.Row{Entry: e})
	if b == nil {
		return made
	}
	for _, of := range b.Status.Resources {
		crd, reason := b.Definition(noting{state, &made}, of)
		o := kinds.Owned{Owner: identityOf(e)}
		var d definedBy
		if crd != nil {
			d = r.provided(b.Provider(), crd, of)
		}
		if d.definition == nil {
			o.Access, o.Why = kinds.Waiting, why(b, of, reason, d.failed)
			d.definition, d.failed = r.outline(of)
		}
		if d.definition == nil { // its names were those of a CRD, so this does not happen
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

func why(b *binding.Binding, of v1alpha1.BoundResource, reason string, failed error) string {
	if failed != nil {
		return failed.Error()
	}
	return b.Says(reason, of.ExportedResource)
}

// provided is what a provider's CRD defines, under the names by which it was bound. Where
// these are the CRD's, its space and all that have bound it share it.
func (r *Registry) provided(provider key.Space, row *table.Row, of v1alpha1.BoundResource) definedBy {
	if known, ok := r.spaces.peek(provider); ok {
		i := slices.IndexFunc(known.rows, func(d definedBy) bool { return d.entry == row.Entry })
		if i >= 0 && known.rows[i].definition != nil && named(known.rows[i].definition.Kinds(), of) {
			return known.rows[i]
		}
	}
	d := definedBy{entry: row.Entry}
	crd, err := custom.ReadStored(row.Value)
	if err != nil {
		d.failed = fmt.Errorf("decode %q: %w", row.Key, err)
		return d
	}
	names := binding.Names(of)
	names.Categories = crd.Status().AcceptedNames.Categories
	crd.Status().AcceptedNames = names
	d.definition, d.failed = r.compiler.CompileStored(crd)
	if d.failed == nil && len(d.definition.Kinds()) == 0 {
		d.definition, d.failed = nil, errors.New("no version is served")
	}
	return d
}

// named says whether kinds have the names of a bound resource.
func named(all []*kinds.Kind, of v1alpha1.BoundResource) bool {
	return len(all) > 0 && all[0].Singular == of.Singular && all[0].ListKind == of.ListKind &&
		slices.Equal(all[0].ShortNames, of.ShortNames)
}
