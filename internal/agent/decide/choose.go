package decide

import (
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
)

// Entry is what one space desires at an identity of the target.
type Entry struct {
	Space key.Space
	Want  *store.Want
	// Yields is true if the location has an object of its own there, which has precedence over the space's. The
	// entry of the space then has no effect.
	Yields bool
}

// Choose returns the index of the entry that decides about an identity of the target. Entries with an object
// come before entries without, then the space of the object that is applied now, then the first space by name.
// It returns -1 if no space desires the identity.
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
	if isObject, isOtherObject := a.Want.Object() != nil, b.Want.Object() != nil; isObject != isOtherObject {
		return isObject
	}
	if rec != nil && (a.Space == rec.Space) != (b.Space == rec.Space) {
		return a.Space == rec.Space
	}
	return a.Space < b.Space
}

// Account returns the ServiceAccount that acts for an object at the target: that of the desired entry, or else that of
// the record. It is empty for the agent itself. ok is false if neither has an object.
func Account(w *store.Want, rec *store.Record) (account string, ok bool) {
	switch {
	case w != nil && w.Object() != nil:
		return w.Object().Policy.ServiceAccount, true
	case rec != nil:
		return rec.Source.Policy.ServiceAccount, true
	}
	return "", false
}
