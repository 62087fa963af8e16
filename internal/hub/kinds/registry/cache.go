package registry

import (
	"container/list"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// catalogBytes is the maximum size in bytes of the catalogs of spaces with CRDs, and of the
	// definitions that only they use.
	catalogBytes = 96 << 20
	// rowWeight is the estimated size in bytes of one CRD in a catalog, without the definition, which
	// catalogs share.
	rowWeight = 1 << 10
)

// spaceCatalog is a catalog and the rows that define it. Rows are compared by their entries, which are
// immutable.
type spaceCatalog struct {
	catalog *kinds.Catalog
	// rows contains the CRDs, bound the APIBindings.
	rows  []definedBy
	bound []boundBy
	// failed is the error of rows that define nothing.
	failed error
}

// definitions returns the definitions that a catalog uses.
func (c *spaceCatalog) definitions() []definedBy {
	all := c.rows
	for _, b := range c.bound {
		all = append(slices.Clip(all), b.definitions...)
	}
	return all
}

type definedBy struct {
	entry *table.Entry
	// definition is that of the CRD; nil if it defines nothing.
	definition *custom.Definition
	access     kinds.Access
	failed     error
}

// catalogs keeps the catalogs that were asked for last. A definition weighs
// once, however many of them have it; so a thousand spaces with the same CRDs
// weigh little more than one, and a thousand with CRDs of their own are bounded.
type catalogs struct {
	limit int64

	mu     sync.Mutex
	weight int64
	order  list.List // of *keptCatalog, the last used in front
	spaces map[key.Space]*list.Element
	// users counts the catalogs that use each definition.
	users map[*custom.Definition]int
}

type keptCatalog struct {
	space   key.Space
	catalog *spaceCatalog
}

func newCatalogs(limit int64) *catalogs {
	return &catalogs{limit: limit, spaces: map[key.Space]*list.Element{}, users: map[*custom.Definition]int{}}
}

// peek returns the catalog of a space if it is there.
func (c *catalogs) peek(s key.Space) (*spaceCatalog, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.spaces[s]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*keptCatalog).catalog, true
}

// put keeps a catalog in place of the space's last one. It stays even if it alone exceeds
// the bound.
func (c *catalogs) put(s key.Space, catalog *spaceCatalog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.spaces[s]; ok {
		c.remove(e)
	}
	c.spaces[s] = c.order.PushFront(&keptCatalog{s, catalog})
	for _, row := range catalog.definitions() {
		c.weight += rowWeight
		if d := row.definition; d != nil {
			if c.users[d]++; c.users[d] == 1 {
				c.weight += d.Weight()
			}
		}
	}
	for c.weight > c.limit && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

// drop forgets a space.
func (c *catalogs) drop(s key.Space) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.spaces[s]; ok {
		c.remove(e)
	}
}

// keep forgets all spaces but some.
func (c *catalogs) keep(some map[key.Space]struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, e := range c.spaces {
		if _, ok := some[s]; !ok {
			c.remove(e)
		}
	}
}

func (c *catalogs) remove(e *list.Element) {
	kept := c.order.Remove(e).(*keptCatalog)
	delete(c.spaces, kept.space)
	for _, row := range kept.catalog.definitions() {
		c.weight -= rowWeight
		if d := row.definition; d != nil {
			if c.users[d]--; c.users[d] == 0 {
				delete(c.users, d)
				c.weight -= d.Weight()
			}
		}
	}
}

func (c *catalogs) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
