package exports

import (
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Reference is a field in which an exported object names a claimed one.
type Reference struct{ Path, Name string }

// Foreign returns the references to existing claimed objects that a write would add to an exported
// object, if these objects are not in the export view f: each reference could bring its target
// there. old is nil for a create.
func (e *Engine) Foreign(state table.Reader, f key.ExportView, old, now *table.Entry) (all []Reference) {
	s, r, _, ok := key.Split(now.Key)
	if !ok || !f.View {
		return nil
	}
	e.mu.RLock()
	x, spaceRules := e.exportOf(f), e.rules[s]
	e.mu.RUnlock()
	if x == nil {
		return nil
	}
	for _, own := range spaceRules.forResource(r) {
		if !own.bound || own.export != x.id {
			continue
		}
		known := map[string]Reference{}
		if old != nil {
			known = maps.Collect(own.named(old))
		}
		for to, reference := range own.named(now) {
			if _, same := known[to]; same {
				continue
			}
			_, resource, _, _ := key.Split(to)
			row := state.Get(to)
			claimed := row != nil && slices.ContainsFunc(spaceRules.forResource(resource), func(c *rule) bool { return c.export == x.id && c.selects(row.Entry) })
			if claimed && !row.IsShownIn(f) {
				all = append(all, reference)
			}
		}
	}
	slices.SortFunc(all, func(a, b Reference) int { return strings.Compare(a.Path, b.Path) })
	return all
}
