package progress

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
)

// Customizer names a Customizer.
type Customizer struct {
	Space key.Space
	Name  string
}

// failedRules indexes the pairs that are held by the Customizer whose rule failed.
type failedRules struct {
	rules map[pair]objectstate.FailedRule
	// pairs are the pairs of each Customizer, in order.
	pairs map[Customizer]*btree.BTreeG[pair]
	dirty map[Customizer]struct{}
}

// clear forgets everything. All known Customizers are dirty.
func (b *failedRules) clear() {
	if b.dirty == nil {
		b.dirty = map[Customizer]struct{}{}
	}
	for c := range b.pairs {
		b.dirty[c] = struct{}{}
	}
	b.rules, b.pairs = map[pair]objectstate.FailedRule{}, map[Customizer]*btree.BTreeG[pair]{}
}

// set records the failed rule of a pair; it is empty if no rule failed.
func (b *failedRules) set(s key.Space, held pair, now objectstate.FailedRule) {
	previous := b.rules[held]
	if previous.Customizer != "" {
		c := Customizer{s, previous.Customizer}
		b.dirty[c] = struct{}{}
		if previous.Customizer != now.Customizer {
			if b.pairs[c].Delete(held); b.pairs[c].Len() == 0 {
				delete(b.pairs, c)
			}
		}
	}
	if now.Customizer == "" {
		delete(b.rules, held)
		return
	}
	b.rules[held] = now
	c := Customizer{s, now.Customizer}
	b.dirty[c] = struct{}{}
	if b.pairs[c] == nil {
		b.pairs[c] = btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true})
	}
	b.pairs[c].Set(held)
}

// takeDirty returns the dirty Customizers in order, without those of omitted spaces.
func (b *failedRules) takeDirty(isOmitted func(key.Space) bool) (all []Customizer) {
	for c := range b.dirty {
		if !isOmitted(c.Space) {
			all = append(all, c)
			delete(b.dirty, c)
		}
	}
	slices.SortFunc(all, func(x, y Customizer) int {
		return cmp.Or(cmp.Compare(x.Space, y.Space), cmp.Compare(x.Name, y.Name))
	})
	return all
}
