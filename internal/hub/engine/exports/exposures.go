package exports

import (
	"strings"
	"weak"

	"orrery.dev/orrery/internal/protocol/key"
)

// showing is a table.Exposure. There is one for the same shelves at a time.
type showing struct{ all []key.Shelf }

// ExportViews implements table.Exposure.
func (s *showing) ExportViews() []key.Shelf { return s.all }

// showings has the showings that somebody uses.
type showings struct {
	made    map[string]weak.Pointer[showing]
	sweepAt int
	text    strings.Builder
}

// minSweep keeps few showings from being looked through all the time.
const minSweep = 64

// of is the showing of some shelves, which are in order.
func (s *showings) of(all []key.Shelf) *showing {
	s.text.Reset()
	for _, f := range all {
		s.text.WriteString(f.String())
		s.text.WriteByte('\n')
	}
	name := s.text.String()
	if w, ok := s.made[name]; ok {
		if one := w.Value(); one != nil {
			return one
		}
	}
	if len(s.made) >= s.sweepAt {
		s.sweep()
	}
	one := &showing{all}
	s.made[name] = weak.Make(one)
	return one
}

// sweep forgets showings that nobody uses. It runs whenever there are twice as many, so that
// it costs as much for each that is made, however many there are.
func (s *showings) sweep() {
	if s.made == nil {
		s.made = map[string]weak.Pointer[showing]{}
	}
	for name, w := range s.made {
		if w.Value() == nil {
			delete(s.made, name)
		}
	}
	s.sweepAt = max(minSweep, 2*len(s.made))
}
