package exports

import (
	"strings"
	"weak"

	"orrery.dev/orrery/internal/protocol/key"
)

// exposure implements table.Exposure. Exposures with the same export views share one.
type exposure struct{ all []key.ExportView }

// ExportViews implements table.Exposure.
func (s *exposure) ExportViews() []key.ExportView { return s.all }

// exposures interns exposures for as long as they are in use.
type exposures struct {
	made    map[string]weak.Pointer[exposure]
	sweepAt int
	text    strings.Builder
}

// minSweep is the size up to which it is not swept.
const minSweep = 64

// intern returns the exposure of export views, which must be in order.
func (s *exposures) intern(all []key.ExportView) *exposure {
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
	one := &exposure{all}
	s.made[name] = weak.Make(one)
	return one
}

// sweep drops exposures that are no longer in use. It runs when their number has doubled, so that
// its cost per exposure is constant.
func (s *exposures) sweep() {
	if s.made == nil {
		s.made = map[string]weak.Pointer[exposure]{}
	}
	for name, w := range s.made {
		if w.Value() == nil {
			delete(s.made, name)
		}
	}
	s.sweepAt = max(minSweep, 2*len(s.made))
}
