package worklist

import (
	"time"

	"orrery.dev/orrery/internal/agent/decide"
)

// notice updates the observed object of an item. It returns true if the object is another one,
// or has changed. list is the revision of the list that showed the object; 0: a watch did. now is open time.
func (it *Item) notice(s *Sighting, list uint64, now time.Duration) bool {
	if s.Seen.Revision != 0 && max(s.Seen.Revision, list) < it.seen.revision {
		return false // the answer to a request of ours was newer
	}
	before, seen := it.seen.observed(), s.Seen
	switch {
	case s.Gone:
		seen = decide.Observed{Existence: decide.Absent, Revision: s.Seen.Revision}
	case s.Ours:
		seen.Existence = decide.Present
	case before.Existence == decide.Present && before.UID == seen.UID:
		seen.Existence, seen.Unmarked = decide.Present, true
	case before.Existence == decide.Present: // another object, with our label, has taken the place of ours
		it.setSeen(decide.Observed{Existence: decide.Absent, Revision: s.Seen.Revision}, now)
		return true
	default: // it has our label, but is not ours
		if before.Existence == decide.Unseen {
			it.setSeen(decide.Observed{Existence: decide.Absent}, now)
		}
		return false
	}
	it.setSeen(seen, now)
	before.Revision, seen.Revision = 0, 0
	return before != seen
}

// answered records the object that an answer showed, unless something newer was seen. now is open
// time.
func (it *Item) answered(seen decide.Observed, now time.Duration) {
	if seen.Revision >= it.seen.revision {
		it.setSeen(seen, now)
	}
}

// setSeen replaces the observed object of an item. now is open time.
func (it *Item) setSeen(seen decide.Observed, now time.Duration) {
	switch {
	case seen.Existence != decide.Present || !seen.Terminating:
		it.terminatingSince = 0
	case it.terminatingSince == 0 || it.seen.id() != seen.UID:
		it.terminatingSince = max(1, now)
	}
	it.seen = pack(seen)
}
