package progress

import (
	"cmp"

	"orrery.dev/orrery/internal/protocol/key"
)

// pair is an object at a location.
type pair struct {
	path     string
	location key.Location
}

func pairLess(a, b pair) bool {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.location, b.location)) < 0
}
