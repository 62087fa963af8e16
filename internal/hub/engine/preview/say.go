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
	// maxShown bounds the locations in a line, and maxText quoted texts, in bytes: servers cut
	// warnings that are longer than 4 KiB in total.
	maxShown = 6
	maxText  = 256
)

// brief returns the beginning of a text.
func brief(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// counts holds the number of objects, each counted once, and their numbers at each location.
type counts struct {
	objects    int
	byLocation map[key.Location]int
}

// add adds n objects at some locations.
func (c *counts) add(n int, locations []key.Location) {
	if len(locations) == 0 {
		return
	}
	if c.byLocation == nil {
		c.byLocation = map[key.Location]int{}
	}
	c.objects += n
	c.addAt(n, locations)
}

// addAt adds locations of objects that are already counted.
func (c *counts) addAt(n int, locations []key.Location) {
	for _, l := range locations {
		c.byLocation[l] += n
	}
}

// objectsAt returns "4 objects at 2 locations", after "at least" if not all were evaluated.
func (a *answer) objectsAt(c *counts, preposition string) string {
	least := ""
	if !a.whole {
		least = "at least "
	}
	return fmt.Sprintf("%s%s %s %s", least, number(c.objects, "object"), preposition, number(len(c.byLocation), "location"))
}

// where lists locations with their counts, the largest first; sign precedes each count.
func (c *counts) where(sign string) string {
	all := slices.SortedFunc(maps.Keys(c.byLocation), func(a, b key.Location) int {
		return cmp.Or(cmp.Compare(c.byLocation[b], c.byLocation[a]), cmp.Compare(a, b))
	})
	var entries []string
	for _, l := range all[:min(maxShown, len(all))] {
		entries = append(entries, fmt.Sprintf("%s %s%d", l, sign, c.byLocation[l]))
	}
	text := strings.Join(entries, ", ")
	if more := len(all) - maxShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// orNothing returns lines, or a message if there are none.
func (a *answer) orNothing(lines []string, nothing string) []string {
	switch {
	case lines != nil:
		return lines
	case a.whole:
		return []string{nothing}
	}
	return []string{nothing + " of what was looked at, which is not all"}
}
