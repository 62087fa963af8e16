// Package exports decides on which shelves the objects of spaces are shown to the providers
// of their APIs: what APIBindings bind and claim, whole and in the slices of APIExportViews.
// And it says what a shelf has, and by what the values of objects are kept as they are.
//
// What it says is a function of the state of the table and of nothing else. A change of an
// object costs as much as there are exports and views of its resource in its space, however
// many slices and consumers these have; a change of a binding, export or view, as many
// objects as it may concern. It must never write, have a clock or a goroutine, compile a
// definition, or know who asks.
package exports

import (
	"sync"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Engine computes Showings for one table, whose lock guards Reset and Show. The questions
// are safe for concurrent use, and are answered by the revision that the table has, or is
// about to have. None of them is answered while a revision is applied.
type Engine struct {
	mu sync.RWMutex

	exports map[exportID]*export
	// views are by the shelf of their rest, and viewsOf by the export that they name, which
	// need not be there, and by name.
	views   map[key.Shelf]*view
	viewsOf map[exportID]map[string]*view
	// bindings are those of a space, by name.
	bindings map[key.Space]map[string]*bound
	// consumers are the spaces that have bindings to an export, by the provider's space and
	// the export's name, in force or not.
	consumers map[key.Space]map[string]map[key.Space]struct{}
	// rules are those of spaces that have some.
	rules    map[key.Space]*rules
	links    links
	showings showings
}

var _ table.Exposer = (*Engine)(nil)

// exportID names an APIExport.
type exportID struct {
	space key.Space
	name  string
}

// shelf is the shelf of all that the export has.
func (id exportID) shelf() key.Shelf { return key.Shelf{Space: id.space, Name: id.name} }

// New makes an Engine for a table's Config.
func New() *Engine {
	e := &Engine{}
	e.reset()
	return e
}

// Reset implements table.Exposer: it forgets everything.
func (e *Engine) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reset()
}

func (e *Engine) reset() {
	e.exports = map[exportID]*export{}
	e.views, e.viewsOf = map[key.Shelf]*view{}, map[exportID]map[string]*view{}
	e.bindings = map[key.Space]map[string]*bound{}
	e.consumers = map[key.Space]map[string]map[key.Space]struct{}{}
	e.rules = map[key.Space]*rules{}
	e.links = newLinks()
	e.showings = showings{}
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
	return s.settle()
}

// neverShown says that objects of a resource are on no shelf, whatever binds or claims them.
func neverShown(r key.Resource) bool {
	return r.Group == v1alpha1.Group || !table.CanBeExported(r)
}
