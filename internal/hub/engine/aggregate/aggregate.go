// Package aggregate computes the tables of Summaries over many objects, each at each of its
// locations. The rows are the selected objects, or groups with combinations of their values.
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
	group   *group
	values  []Value
	failure string
	size    int
}

// group is a row.
type group struct {
	// key identifies the group; for a selected row, it is that of the pair.
	key   string
	pair  Pair
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
		return cmp.Or(a.pair.compare(b.pair), compareAll(a.keys, b.keys)) < 0
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
	if old != nil && c.Failure == old.failure && (c.Failure != "" || c.in && s.same(old, &c)) {
		return false
	}
	if old != nil {
		s.take(p, old)
	}
	if !c.in && c.Failure == "" {
		return old != nil
	}
	e := &entry{failure: c.Failure, size: c.size()}
	s.pairs[p] = e
	s.size += e.size
	if c.Failure != "" {
		s.failing.Set(failure{p.Location, p.Path, c.Failure})
		return true
	}
	e.group = s.group(p, c.keys)
	if !s.onlyCounts() {
		e.values = c.values
	}
	e.group.n++
	s.touched[e.group] = struct{}{}
	for i := range c.values {
		e.group.accus[i].add(c.values[i], 1)
	}
	s.byLocation[p.Location]++
	s.n++
	return true
}

// onlyCounts reports whether all columns only count, so that values need not be stored.
func (s *State) onlyCounts() bool {
	return !slices.ContainsFunc(s.combined, func(c column) bool { return c.program != nil })
}

// same reports whether an entry, which has not failed, equals a contribution.
func (s *State) same(e *entry, c *Contribution) bool {
	return e.group != nil && compareAll(e.group.keys, c.keys) == 0 && (s.onlyCounts() || compareAll(e.values, c.values) == 0)
}

// Remove removes the contribution of a pair.
func (s *State) Remove(p Pair) (changed bool) { return s.Set(p, Contribution{}) }

func (s *State) take(p Pair, e *entry) {
	delete(s.pairs, p)
	s.size -= e.size
	if e.group == nil {
		s.failing.Delete(failure{location: p.Location, path: p.Path})
		return
	}
	for i := range e.group.accus {
		v := count(1)
		if e.values != nil {
			v = e.values[i]
		}
		e.group.accus[i].add(v, -1)
	}
	s.touched[e.group] = struct{}{}
	if e.group.n--; e.group.n == 0 {
		s.countTraits(s.traits, e.group.traits, -1)
		delete(s.touched, e.group)
		delete(s.groups, e.group.key)
		s.order.Delete(e.group)
		s.size -= e.group.size()
	}
	if s.byLocation[p.Location]--; s.byLocation[p.Location] == 0 {
		delete(s.byLocation, p.Location)
	}
	s.n--
}

// group returns the group of a pair with some keys.
func (s *State) group(p Pair, keys []Value) *group {
	var k string
	if s.selects {
		k = p.Path + "\x00" + string(p.Location)
	} else {
		p = Pair{}
		var b bytes.Buffer
		for _, v := range keys {
			v.key(&b)
		}
		k = b.String()
	}
	g := s.groups[k]
	if g == nil {
		g = &group{key: k, pair: p, keys: keys}
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
