// Package aggregate makes a table of many objects, each at each of its locations: rows of
// what a Summary selects, or of groups and what their values come to together.
//
// A Summary is a Definition and a State: what each object at each location contributes is put
// into the State, which keeps its rows up to date at a cost that does not depend on their
// number, and always is as if everything was counted anew. What groups come to can be merged
// with the same of other States, exactly and in any order, so that a hub can sum up others.
//
// It must never know where objects come from, nor have a clock, a client or a log. Only the
// hub links it.
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

// MaxBytes bounds what one State holds, in bytes.
const MaxBytes = 16 << 20

// State is what a Summary counts. It is not safe for concurrent use.
type State struct {
	*Definition
	pairs  map[Pair]*entry
	groups map[string]*group
	// order has the groups in the order of rows, failing the pairs that fail, by location.
	order   *btree.BTreeG[*group]
	failing *btree.BTreeG[failure]
	// traits are those of all groups as they were looked at last, touched those that have
	// changed since.
	traits  []traits
	touched map[*group]struct{}
	// at counts by location what is in the rows.
	at   map[key.Location]int64
	n    int64
	size int
}

// entry is a pair that is in the rows, or fails; of one that is left out there is none.
type entry struct {
	group   *group
	values  []Value
	failure string
	size    int
}

// group is a row.
type group struct {
	// key identifies it; of a selected row, it is the pair's.
	key   string
	pair  Pair
	keys  []Value
	n     int64
	accus []accumulator
	// traits are those that are counted of it; nil if it has not been looked at.
	traits []trait
}

type failure struct {
	location      key.Location
	path, message string
}

// NewState makes a State that has nothing.
func NewState(d *Definition) *State {
	s := &State{
		Definition: d, pairs: map[Pair]*entry{}, groups: map[string]*group{}, at: map[key.Location]int64{},
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

// Set replaces what a pair contributes. changed says that the rows, or what is said of them,
// may be others.
func (s *State) Set(p Pair, c Contribution) (changed bool) {
	was := s.pairs[p]
	if was != nil && c.Failure == was.failure && (c.Failure != "" || c.in && s.same(was, &c)) {
		return false
	}
	if was != nil {
		s.take(p, was)
	}
	if !c.in && c.Failure == "" {
		return was != nil
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
	s.at[p.Location]++
	s.n++
	return true
}

// onlyCounts says that all values of all pairs are alike.
func (s *State) onlyCounts() bool {
	return !slices.ContainsFunc(s.combined, func(c column) bool { return c.program != nil })
}

// same says that an entry, which did not fail, has what is contributed.
func (s *State) same(e *entry, c *Contribution) bool {
	return e.group != nil && compareAll(e.group.keys, c.keys) == 0 && (s.onlyCounts() || compareAll(e.values, c.values) == 0)
}

// Remove takes what a pair contributes.
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
		s.tally(s.traits, e.group.traits, -1)
		delete(s.touched, e.group)
		delete(s.groups, e.group.key)
		s.order.Delete(e.group)
		s.size -= e.group.size()
	}
	if s.at[p.Location]--; s.at[p.Location] == 0 {
		delete(s.at, p.Location)
	}
	s.n--
}

// group is the group of a pair with some keys.
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

// looked are the traits of all groups, of which those are looked at that have changed.
func (s *State) looked() []traits {
	for g := range s.touched {
		s.tally(s.traits, g.traits, -1)
		r := g.row()
		g.traits = s.traitsOf(&r, g.traits)
		s.tally(s.traits, g.traits, 1)
	}
	s.touched = map[*group]struct{}{}
	return s.traits
}

// size is about how many bytes it has.
func (g *group) size() int {
	const itself, accu = 240, 160
	return itself + len(g.key) + accu*len(g.accus)
}

// Full says that it holds more than it may.
func (s *State) Full() bool { return s.size > MaxBytes }

// Bytes is about how many bytes it holds.
func (s *State) Bytes() int { return s.size }

// Pairs calls fn for all pairs that are in the rows or fail.
func (s *State) Pairs(fn func(Pair)) {
	for p := range s.pairs {
		fn(p)
	}
}

// At is how many objects of a location are in the rows.
func (s *State) At(l key.Location) int64 { return s.at[l] }
