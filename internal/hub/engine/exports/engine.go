// Package exports computes in which export views the objects of spaces appear: views of APIExports
// with the objects that APIBindings bind and claim, and slices of APIExportViews. It also returns
// the content of an export view, and the values of objects that writes through it must keep.
//
// All results are a function of the state of the table. A change of an object costs time in
// proportion to the exports and views of its resource in its space, however many slices and
// consumers these have. A change of a binding, export or view costs time in proportion to the
// objects that it may affect. The package must never write, have a clock or a goroutine, compile a
// definition, or depend on the user of a request.
package exports

import (
	"sync"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Engine computes the exposures of one table. The lock of the table guards Reset and Expose. The
// other methods are safe for concurrent use. They return results for the revision that the table
// has, or is about to have, and block while a revision is applied.
type Engine struct {
	mu sync.RWMutex

	exports map[exportID]*export
	// views is keyed by the export view of the rest. viewsOf is keyed by the export, which need not
	// exist, and the name of the view.
	views   map[key.ExportView]*view
	viewsOf map[exportID]map[string]*view
	// bindings are the bindings of a space, by name.
	bindings map[key.Space]map[string]*bound
	// consumers are the spaces with bindings to an export, in effect or not, by the provider's
	// space and the export's name.
	consumers map[key.Space]map[string]map[key.Space]struct{}
	// rules are the rules of spaces that have some.
	rules     map[key.Space]*rules
	links     links
	exposures exposures

	// These are for the next Expose. Only the goroutine that applies revisions uses them.
	preparedExports  table.Prepared[*export]
	preparedViews    table.Prepared[*view]
	preparedBindings table.Prepared[*bound]
}

var (
	_ table.Exposer  = (*Engine)(nil)
	_ table.Preparer = (*Engine)(nil)
)

// exportID names an APIExport.
type exportID struct {
	space key.Space
	name  string
}

// exportView returns the export view with all objects of the export.
func (id exportID) exportView() key.ExportView { return key.ExportView{Space: id.space, Name: id.name} }

// New returns an Engine for a table's Config.
func New() *Engine {
	e := &Engine{preparedExports: table.Prepared[*export]{}, preparedViews: table.Prepared[*view]{}, preparedBindings: table.Prepared[*bound]{}}
	e.reset()
	return e
}

// Reset implements table.Exposer. It drops all state.
func (e *Engine) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reset()
}

func (e *Engine) reset() {
	e.exports = map[exportID]*export{}
	e.views, e.viewsOf = map[key.ExportView]*view{}, map[exportID]map[string]*view{}
	e.bindings = map[key.Space]map[string]*bound{}
	e.consumers = map[key.Space]map[string]map[key.Space]struct{}{}
	e.rules = map[key.Space]*rules{}
	e.links = newLinks()
	e.exposures = exposures{}
}

// Prepare implements table.Preparer: it decodes exports, views and bindings, which are as large as users write
// them.
func (e *Engine) Prepare(_ table.NextState, changes []table.Change) {
	clear(e.preparedExports)
	clear(e.preparedViews)
	clear(e.preparedBindings)
	for _, c := range changes {
		in, resource, name, ok := key.Split(c.Row().Key)
		if !ok || c.Cur == nil {
			continue
		}
		switch resource {
		case key.APIExports:
			e.preparedExports[c.Cur.Entry] = readExport(exportID{in, name}, c.Cur)
		case key.APIExportViews:
			e.preparedViews[c.Cur.Entry] = readView(key.ExportView{Space: in, Name: name, View: true}, c.Cur)
		case key.APIBindings:
			e.preparedBindings[c.Cur.Entry] = readBound(c.Cur)
		}
	}
}

// Expose implements table.Exposer.
func (e *Engine) Expose(state table.Reader, changes []table.Change) []table.Exposed {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &step{Engine: e, state: state, before: map[key.Space]*rules{}}
	s.updatePolicies(changes)
	s.collect(changes)
	s.walk()
	s.relink()
	return s.exposeAll()
}

// neverShown reports whether objects of a resource are in no export view, even if a space binds or
// claims them.
func neverShown(r key.Resource) bool {
	return r.Group == v1alpha1.Group || !table.CanBeExported(r)
}
