package exports

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// step is the state of one call of Expose.
type step struct {
	*Engine
	state table.Reader
	// touched are the spaces, with exports, whose rules are recomputed. before holds the earlier
	// rules of these spaces.
	touched map[spaceExport]struct{}
	before  map[key.Space]*rules
	// inspected are the objects whose export views may have changed, ordered by key and without
	// duplicates: written objects with rules, and all objects of touched rules.
	inspected []inspection
	// following are the keys of claimed objects that follow changed objects.
	following []string
}

// inspection is an object as it was before the step and is now.
type inspection struct {
	key       string
	prev, cur *table.Row
	// written reports whether the entry has changed.
	written bool
}

func (l inspection) compare(o inspection) int {
	if c := strings.Compare(l.key, o.key); c != 0 || l.written == o.written {
		return c
	}
	if l.written {
		return -1
	}
	return 1
}

// rulesBefore returns the rules of a space before the step.
func (s *step) rulesBefore(space key.Space) *rules {
	if previous, ok := s.before[space]; ok {
		return previous
	}
	return s.rules[space]
}

// collect adds the changes of objects with rules, before or after the step.
func (s *step) collect(changes []table.Change) {
	for _, c := range changes {
		if c.SameEntry() {
			continue
		}
		k := c.Row().Key
		space, resource, _, ok := key.Split(k)
		if !ok {
			continue
		}
		if s.rules[space].forResource(resource) == nil && s.rulesBefore(space).forResource(resource) == nil {
			continue
		}
		s.inspected = append(s.inspected, inspection{k, c.Prev, c.Cur, true})
	}
}

// walk adds the objects of touched rules.
func (s *step) walk() {
	walked := map[string]struct{}{}
	for t := range s.touched {
		for _, all := range [...]*rules{s.before[t.space], s.rules[t.space]} {
			if all == nil {
				continue
			}
			for resource, ruleList := range all.byResource {
				prefix := key.ResourcePrefix(t.space, resource)
				if _, done := walked[prefix]; done || !anyOf(ruleList, t.export) {
					continue
				}
				walked[prefix] = struct{}{}
				s.state.Ascend(prefix, func(row *table.Row) bool {
					s.inspected = append(s.inspected, inspection{row.Key, row, row, false})
					return true
				})
			}
		}
	}
	slices.SortFunc(s.inspected, inspection.compare)
	s.inspected = slices.CompactFunc(s.inspected, func(a, b inspection) bool { return a.key == b.key })
}

func anyOf(all []*rule, id exportID) bool {
	for _, r := range all {
		if r.export == id {
			return true
		}
	}
	return false
}

// exposeAll returns the new exposures of the inspected objects.
func (s *step) exposeAll() (all []table.Exposed) {
	for _, l := range s.inspected {
		if l.cur == nil {
			continue
		}
		var exposure table.Exposure
		if views := s.currentExportViews(l.cur); len(views) > 0 {
			exposure = s.exposures.intern(views)
		}
		if l.written && exposure != nil || !l.written && exposure != l.cur.Exposure {
			all = append(all, table.Exposed{Key: l.key, Exposure: exposure})
		}
	}
	return all
}

// currentExportViews returns the export views of an existing object.
func (s *step) currentExportViews(row *table.Row) []key.ExportView {
	space, resource, _, _ := key.Split(row.Key)
	all := s.rules[space].forResource(resource)
	if len(all) == 0 {
		return nil
	}
	return exportViewsOf(s.state, all, row.Entry, func(v *view) []string { return s.links.values(row.Key, v) })
}
