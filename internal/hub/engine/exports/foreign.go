package exports

import (
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Reference is a field by which an exported object names a claimed one.
type Reference struct{ Path, Name string }

// Foreign are the references that an exported object would have besides those it had to
// claimed objects that are there, and not on a shelf of a view: by each of them such an
// object could come there. was is nil for an object that is made.
func (e *Engine) Foreign(state table.Reader, f key.Shelf, was, now *table.Entry) (all []Reference) {
	s, r, _, ok := key.Split(now.Key)
	if !ok || !f.View {
		return nil
	}
	e.mu.RLock()
	x, by := e.exportOf(f), e.rules[s]
	e.mu.RUnlock()
	if x == nil {
		return nil
	}
	for _, of := range by.on(r) {
		if !of.bound || of.of != x.id {
			continue
		}
		had := map[string]Reference{}
		if was != nil {
			had = maps.Collect(of.named(was))
		}
		for to, at := range of.named(now) {
			if _, same := had[to]; same {
				continue
			}
			_, resource, _, _ := key.Split(to)
			row := state.Get(to)
			claimed := row != nil && slices.ContainsFunc(by.on(resource), func(c *rule) bool { return c.of == x.id && c.has(row.Entry) })
			if claimed && !row.IsShownIn(f) {
				all = append(all, at)
			}
		}
	}
	slices.SortFunc(all, func(a, b Reference) int { return strings.Compare(a.Path, b.Path) })
	return all
}
