package selectors

import (
	"unique"

	"orrery.dev/orrery/internal/hub/storage/table"
)

const (
	// minRemembered is the number of requirements from which it costs less to look a result up than
	// to evaluate the selector again.
	minRemembered = 4
	// maxCleared is the number of results up to which a Memo keeps its map for the next labels: to
	// clear one costs as much as it once had.
	maxCleared = 256
)

// Memo evaluates equal selectors once for the labels that it was asked about last. It is for one
// goroutine. A nil Memo remembers and counts nothing.
type Memo struct {
	steps int
	// first and n are the labels, by their place in memory.
	first *table.Label
	n     int
	known map[unique.Handle[string]]bool
}

// Matches reports whether a selector matches labels.
func (m *Memo) Matches(s *Selector, l table.Labels) bool {
	switch {
	case m == nil:
		return s.Matches(l)
	case len(s.requirements) < minRemembered || len(l) == 0:
		return m.evaluate(s, l)
	}
	m.turnTo(l)
	ok, known := m.known[s.id]
	if !known {
		ok = m.evaluate(s, l)
		m.known[s.id] = ok
	}
	return ok
}

// turnTo forgets the results for other labels than these.
func (m *Memo) turnTo(l table.Labels) {
	if m.first == &l[0] && m.n == len(l) {
		return
	}
	m.first, m.n = &l[0], len(l)
	if m.known == nil || len(m.known) > maxCleared {
		m.known = map[unique.Handle[string]]bool{}
	}
	clear(m.known)
}

func (m *Memo) evaluate(s *Selector, l table.Labels) bool {
	ok, steps := s.evaluate(l)
	m.steps += steps
	return ok
}

// Steps is how many requirements were evaluated.
func (m *Memo) Steps() int { return m.steps }

// AnyMatches reports whether any of some selectors matches labels. The Memo may be nil.
func AnyMatches(m *Memo, all []*Selector, l table.Labels) bool {
	for _, s := range all {
		if m.Matches(s, l) {
			return true
		}
	}
	return false
}
