package decide

import (
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
)

// Entry is one space's desired entry of an identity.
type Entry struct {
	Space key.Space
	Want  *store.Want
	// Yields says that the object is the location's own for the space, which then has no
	// entry to follow.
	Yields bool
}

// Choose returns the index of the entry that an identity at the target follows: one
// with an object before one without, then that of the space that the object there came
// from, then the first by name. It returns -1 if no
// space desires it.
func Choose(wants []Entry, rec *store.Record) int {
	best := -1
	for i, w := range wants {
		if !w.Want.Desired() {
			continue
		}
		if best < 0 || precedes(w, wants[best], rec) {
			best = i
		}
	}
	return best
}

func precedes(a, b Entry, rec *store.Record) bool {
	if has, had := a.Want.Object() != nil, b.Want.Object() != nil; has != had {
		return has
	}
	if rec != nil && (a.Space == rec.Space) != (b.Space == rec.Space) {
		return a.Space == rec.Space
	}
	return a.Space < b.Space
}
