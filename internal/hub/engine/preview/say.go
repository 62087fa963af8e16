package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxShown bounds how many locations a line names, and maxText what it quotes, in
	// bytes: a server cuts warnings that are longer than 4 KiB together.
	maxShown = 6
	maxText  = 256
)

// brief is the beginning of a text that is quoted.
func brief(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// counts are of objects, each counted once, and of these at each location.
type counts struct {
	objects int
	at      map[key.Location]int
}

// add adds n objects at some locations.
func (c *counts) add(n int, locations []key.Location) {
	if len(locations) == 0 {
		return
	}
	if c.at == nil {
		c.at = map[key.Location]int{}
	}
	c.objects += n
	c.addAt(n, locations)
}

// addAt adds objects that are counted already.
func (c *counts) addAt(n int, locations []key.Location) {
	for _, l := range locations {
		c.at[l] += n
	}
}

// objectsAt is "4 objects at 2 locations", with "at least" before what was not counted to
// the end.
func (a *answer) objectsAt(c *counts, preposition string) string {
	least := ""
	if !a.whole {
		least = "at least "
	}
	return fmt.Sprintf("%s%s %s %s", least, number(c.objects, "object"), preposition, number(len(c.at), "location"))
}

// where lists locations with their counts, the largest first; sign is put before these.
func (c *counts) where(sign string) string {
	all := slices.SortedFunc(maps.Keys(c.at), func(a, b key.Location) int {
		return cmp.Or(cmp.Compare(c.at[b], c.at[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, l := range all[:min(maxShown, len(all))] {
		parts = append(parts, fmt.Sprintf("%s %s%d", l, sign, c.at[l]))
	}
	text := strings.Join(parts, ", ")
	if more := len(all) - maxShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// orNothing are lines, or that there is nothing to say.
func (a *answer) orNothing(lines []string, nothing string) []string {
	switch {
	case lines != nil:
		return lines
	case a.whole:
		return []string{nothing}
	}
	return []string{nothing + " of what was looked at, which is not all"}
}
