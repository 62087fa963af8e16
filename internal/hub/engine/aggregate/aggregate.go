// Package aggregate computes the tables of Summaries over many objects, each at each of its
// locations. The rows are the selected objects or their elements, or groups with combinations of their
// values.
//
// A Summary is a Definition and a State. Contributions of objects at locations are put into the
// State. It updates its rows at a cost that does not depend on their number, and is always equal to
// a full computation. Groups of several States can be merged, exactly and in any order, so that a
// hub can sum up others.
//
// The package must never depend on the source of objects, nor have a clock, a client or a logger.
// Only the hub links it.
package aggregate

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/protocol/key"
)

// Pair is an object at a location.
type Pair struct {
	Path     string
	Location key.Location
}

func (p Pair) compare(o Pair) int {
	return cmp.Or(strings.Compare(p.Path, o.Path), strings.Compare(string(p.Location), string(o.Location)))
}

// MaxBytes bounds the size of a State, in bytes.
const MaxBytes = 16 << 20

// State holds the contributions to a Summary. It is not safe for concurrent use.
type State struct {
	*Definition
	pairs  map[Pair]*entry
	groups map[string]*group
	// order holds the groups in the order of rows, and failing the failed pairs by location.
	order   *btree.BTreeG[*group]
	failing *btree.BTreeG[failure]
	// traits counts the traits of all groups, except for changes of the touched ones.
	traits  []traits
	touched map[*group]struct{}
	// byLocation counts the pairs in the rows by location.
	byLocation map[key.Location]int64
	n          int64
	size       int
}

// entry is a pair that is in the rows or has failed. Filtered pairs have none.
type entry struct {
	// rows are the rows of its elements, in order.
	rows    []rowElement
	failure string
	size    int
}

// rowElement is an element that is counted in a row.
type rowElement struct {
	group  *group
	values []Value
}

// group is a row.
type group struct {
	// key identifies the group; for a selected row, it is that of the pair and the element.
	key   string
	pair  Pair
	index int
	keys  []Value
	n     int64
	accus []accumulator
	// traits are the counted traits of the group; nil if they are not counted yet.
	traits []trait
}

type failure struct {
	location      key.Location
	path, message string
}

// NewState returns an empty State.
func NewState(d *Definition) *State {
	s := &State{
		Definition: d, pairs: map[Pair]*entry{}, groups: map[string]*group{}, byLocation: map[key.Location]int64{},
		traits: make([]traits, d.columns()), touched: map[*group]struct{}{},
	}
	options := btree.Options{NoLocks: true, Degree: degree}
	s.order = btree.NewBTreeGOptions(func(a, b *group) bool {
		return cmp.Or(a.pair.compare(b.pair), cmp.Compare(a.index, b.index), compareAll(a.keys, b.keys)) < 0
	}, options)
	s.failing = btree.NewBTreeGOptions(func(a, b failure) bool {
		return cmp.Or(strings.Compare(string(a.location), string(b.location)), strings.Compare(a.path, b.path)) < 0
	}, options)
	return s
}

// Set replaces the contribution of a pair. changed reports whether the rows or the errors may have
// changed.
func (s *State) Set(p Pair, c Contribution) (changed bool) {
	old := s.pairs[p]
	if old != nil && c.Failure == old.failure && (c.Failure != "" || len(c.elements) > 0 && s.same(old, &c)) {
		return false
	}
	if old != nil {
		s.take(p, old)
	}
	if len(c.elements) == 0 && c.Failure == "" {
		return old != nil
	}
	e := &entry{failure: c.Failure, size: c.size()}
	s.pairs[p] = e
	s.size += e.size
	if c.Failure != "" {
		s.failing.Set(failure{p.Location, p.Path, c.Failure})
		return true
	}
	e.rows = make([]rowElement, 0, len(c.elements))
	for _, one := range c.elements {
		e.rows = append(e.rows, s.count(p, one))
	}
	s.byLocation[p.Location]++
	s.n++
	return true
}

// count counts an element of a pair in its row.
func (s *State) count(p Pair, one element) rowElement {
	g := s.group(p, one.index, one.keys)
	g.n++
	s.touched[g] = struct{}{}
	for i := range one.values {
		g.accus[i].add(one.values[i], 1)
	}
	if s.onlyCounts() {
		return rowElement{group: g}
	}
	return rowElement{g, one.values}
}

// onlyCounts reports whether all columns only count, so that values need not be stored.
func (s *State) onlyCounts() bool {
	return !slices.ContainsFunc(s.combined, func(c column) bool { return c.program != nil })
}

// same reports whether an entry, which has not failed, equals a contribution.
func (s *State) same(e *entry, c *Contribution) bool {
	return slices.EqualFunc(e.rows, c.elements, func(r rowElement, one element) bool {
		return (!s.selects || r.group.index == one.index) && compareAll(r.group.keys, one.keys) == 0 && (s.onlyCounts() || compareAll(r.values, one.values) == 0)
	})
}

// Remove removes the contribution of a pair.
func (s *State) Remove(p Pair) (changed bool) { return s.Set(p, Contribution{}) }

func (s *State) take(p Pair, e *entry) {
	delete(s.pairs, p)
	s.size -= e.size
	if e.failure != "" {
		s.failing.Delete(failure{location: p.Location, path: p.Path})
		return
	}
	for _, r := range e.rows {
		s.uncount(r)
	}
	if s.byLocation[p.Location]--; s.byLocation[p.Location] == 0 {
		delete(s.byLocation, p.Location)
	}
	s.n--
}

// uncount reverts count.
func (s *State) uncount(r rowElement) {
	g := r.group
	for i := range g.accus {
		v := count(1)
		if r.values != nil {
			v = r.values[i]
		}
		g.accus[i].add(v, -1)
	}
	s.touched[g] = struct{}{}
	if g.n--; g.n == 0 {
		s.countTraits(s.traits, g.traits, -1)
		delete(s.touched, g)
		delete(s.groups, g.key)
		s.order.Delete(g)
		s.size -= g.size()
	}
}

// group returns the group of an element of a pair with some keys.
func (s *State) group(p Pair, index int, keys []Value) *group {
	var k string
	if s.selects {
		k = p.Path + "\x00" + string(p.Location) + "\x00" + strconv.Itoa(index)
	} else {
		p, index = Pair{}, 0
		var b bytes.Buffer
		for _, v := range keys {
			v.key(&b)
		}
		k = b.String()
	}
	g := s.groups[k]
	if g == nil {
		g = &group{key: k, pair: p, index: index, keys: keys}
		for _, c := range s.combined {
			g.accus = append(g.accus, newAccumulator(c.as))
		}
		s.groups[k] = g
		s.order.Set(g)
		s.size += g.size()
	}
	return g
}

// updatedTraits returns the traits of all groups, after an update for the changed ones.
func (s *State) updatedTraits() []traits {
	for g := range s.touched {
		s.countTraits(s.traits, g.traits, -1)
		r := g.row()
		g.traits = s.traitsOf(&r, g.traits)
		s.countTraits(s.traits, g.traits, 1)
	}
	s.touched = map[*group]struct{}{}
	return s.traits
}

// size returns the approximate size in bytes.
func (g *group) size() int {
	const itself, accu = 240, 160
	return itself + len(g.key) + accu*len(g.accus)
}

// Full reports whether the State exceeds its limit.
func (s *State) Full() bool { return s.size > MaxBytes }

// Bytes returns the approximate size in bytes.
func (s *State) Bytes() int { return s.size }

// Pairs calls fn for all pairs that are in the rows or have failed.
func (s *State) Pairs(fn func(Pair)) {
	for p := range s.pairs {
		fn(p)
	}
}

// ObjectsAt returns how many objects of a location are in the rows.
func (s *State) ObjectsAt(l key.Location) int64 { return s.byLocation[l] }
