package progress

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
)

// CustomizerIn returns the object of a Customizer.
func CustomizerIn(s key.Space, name string) key.Object {
	return key.Object{Space: s, Identity: key.Identity{Resource: key.Customizers, Name: name}}
}

// failedRules indexes the pairs for which a rule failed, by the Customizer or KindRules of the rule.
type failedRules struct {
	rules map[pair]objectstate.FailedRule
	// pairs are the pairs of each Customizer and KindRules, in order.
	pairs map[key.Object]*btree.BTreeG[pair]
	dirty map[key.Object]struct{}
}

// clear forgets everything. All known Customizers and KindRules are dirty.
func (b *failedRules) clear() {
	if b.dirty == nil {
		b.dirty = map[key.Object]struct{}{}
	}
	for o := range b.pairs {
		b.dirty[o] = struct{}{}
	}
	b.rules, b.pairs = map[pair]objectstate.FailedRule{}, map[key.Object]*btree.BTreeG[pair]{}
}

// ownerOf returns the Customizer or KindRules of the failed rule of an object in a space; ok is false
// if no rule failed.
func ownerOf(s key.Space, f objectstate.FailedRule) (o key.Object, ok bool) {
	if f.Customizer != "" {
		return CustomizerIn(s, f.Customizer), true
	}
	return f.KindRules, f.KindRules.Name != ""
}

// set records the failed rule of a pair; it is empty if no rule failed.
func (b *failedRules) set(s key.Space, p pair, now objectstate.FailedRule) {
	owner, isFailed := ownerOf(s, now)
	if previous, wasFailed := ownerOf(s, b.rules[p]); wasFailed {
		b.dirty[previous] = struct{}{}
		if previous != owner {
			if b.pairs[previous].Delete(p); b.pairs[previous].Len() == 0 {
				delete(b.pairs, previous)
			}
		}
	}
	if !isFailed {
		delete(b.rules, p)
		return
	}
	b.rules[p] = now
	b.dirty[owner] = struct{}{}
	if b.pairs[owner] == nil {
		b.pairs[owner] = btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true})
	}
	b.pairs[owner].Set(p)
}

// takeDirty returns the dirty Customizers and KindRules in order, without those of omitted spaces.
func (b *failedRules) takeDirty(isOmitted func(key.Space) bool) (all []key.Object) {
	for o := range b.dirty {
		if !isOmitted(o.Space) {
			all = append(all, o)
			delete(b.dirty, o)
		}
	}
	slices.SortFunc(all, func(x, y key.Object) int { return strings.Compare(x.Key(), y.Key()) })
	return all
}
