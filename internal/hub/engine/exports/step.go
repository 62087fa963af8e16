package exports

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// step is what one revision changes.
type step struct {
	*Engine
	state table.Reader
	// touched are the spaces, and exports there, whose rules are made anew; before are the
	// rules of these spaces before that.
	touched map[spaceExport]struct{}
	before  map[key.Space]*rules
	// looks are at the objects that rules are about, or were, in the order of their keys, each
	// once: those that were written, and those that touched rules are about.
	looks []look
	// following are the keys of claimed objects that follow what has changed.
	following []string
}

// look is at an object, as it was before the step and is now.
type look struct {
	key       string
	prev, cur *table.Row
	// written says that it is not the same entry.
	written bool
}

func (l look) compare(o look) int {
	if c := strings.Compare(l.key, o.key); c != 0 || l.written == o.written {
		return c
	}
	if l.written {
		return -1
	}
	return 1
}

// rulesBefore are the rules of a space before the step.
func (s *step) rulesBefore(space key.Space) *rules {
	if was, ok := s.before[space]; ok {
		return was
	}
	return s.rules[space]
}

// collect notes the changes of objects that rules are about, or were.
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
		if s.rules[space].on(resource) == nil && s.rulesBefore(space).on(resource) == nil {
			continue
		}
		s.looks = append(s.looks, look{k, c.Prev, c.Cur, true})
	}
}

// walk notes the objects that touched rules are about, or were.
func (s *step) walk() {
	walked := map[string]struct{}{}
	for t := range s.touched {
		for _, all := range [...]*rules{s.before[t.space], s.rules[t.space]} {
			if all == nil {
				continue
			}
			for resource, of := range all.of {
				prefix := key.ResourcePrefix(t.space, resource)
				if _, done := walked[prefix]; done || !about(of, t.of) {
					continue
				}
				walked[prefix] = struct{}{}
				s.state.Ascend(prefix, func(row *table.Row) bool {
					s.looks = append(s.looks, look{row.Key, row, row, false})
					return true
				})
			}
		}
	}
	slices.SortFunc(s.looks, look.compare)
	s.looks = slices.CompactFunc(s.looks, func(a, b look) bool { return a.key == b.key })
}

func about(all []*rule, id exportID) bool {
	for _, r := range all {
		if r.of == id {
			return true
		}
	}
	return false
}

// settle says on which shelves objects are now.
func (s *step) settle() (all []table.Exposed) {
	for _, l := range s.looks {
		if l.cur == nil {
			continue
		}
		var on table.Exposure
		if shelves := s.shelvesOf(l.cur); len(shelves) > 0 {
			on = s.showings.of(shelves)
		}
		if l.written && on != nil || !l.written && on != l.cur.Exposure {
			all = append(all, table.Exposed{Key: l.key, Exposure: on})
		}
	}
	return all
}

// shelvesOf are those of an object that is there.
func (s *step) shelvesOf(row *table.Row) []key.Shelf {
	space, resource, _, _ := key.Split(row.Key)
	all := s.rules[space].on(resource)
	if len(all) == 0 {
		return nil
	}
	return shelves(s.state, all, row.Entry, func(v *view) []string { return s.links.values(row.Key, v) })
}
