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

// blames indexes the pairs that are held by the Customizer whose rule failed.
type blames struct {
	of map[pair]objectstate.FailedRule
	// by are the pairs of each Customizer, in order.
	by    map[Customizer]*btree.BTreeG[pair]
	dirty map[Customizer]struct{}
}

// clear forgets everything; what was known is dirty.
func (b *blames) clear() {
	if b.dirty == nil {
		b.dirty = map[Customizer]struct{}{}
	}
	for c := range b.by {
		b.dirty[c] = struct{}{}
	}
	b.of, b.by = map[pair]objectstate.FailedRule{}, map[Customizer]*btree.BTreeG[pair]{}
}

// note records the failed rule of a pair; it is empty if no rule failed.
func (b *blames) note(s key.Space, at pair, now objectstate.FailedRule) {
	was := b.of[at]
	if was.Customizer != "" {
		c := Customizer{s, was.Customizer}
		b.dirty[c] = struct{}{}
		if was.Customizer != now.Customizer {
			if b.by[c].Delete(at); b.by[c].Len() == 0 {
				delete(b.by, c)
			}
		}
	}
	if now.Customizer == "" {
		delete(b.of, at)
		return
	}
	b.of[at] = now
	c := Customizer{s, now.Customizer}
	b.dirty[c] = struct{}{}
	if b.by[c] == nil {
		b.by[c] = btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true})
	}
	b.by[c].Set(at)
}

// takeDirty returns those that are dirty, in order, but those of spaces that are held.
func (b *blames) takeDirty(isHeld func(key.Space) bool) (all []Customizer) {
	for c := range b.dirty {
		if !isHeld(c.Space) {
			all = append(all, c)
			delete(b.dirty, c)
		}
	}
	slices.SortFunc(all, func(x, y Customizer) int {
		return cmp.Or(cmp.Compare(x.Space, y.Space), cmp.Compare(x.Name, y.Name))
	})
	return all
}
