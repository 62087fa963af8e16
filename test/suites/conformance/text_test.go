package conformance

import (
	"fmt"
	"strings"
)

// name fills in what stands as % in a text.
func name(text, name string) string { return strings.ReplaceAll(text, "%", name) }

// last is what number gave last.
func (s *side) last() string { return fmt.Sprint(s.numbers) }

// number is another one each time, for names.
func (s *side) number() string {
	s.numbers++
	return fmt.Sprint(s.numbers)
}
