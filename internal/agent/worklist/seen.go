package worklist

import (
	"time"

	"orrery.dev/orrery/internal/agent/decide"
)

// notice updates what is known of an item. It returns true if the object is another one,
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
		it.sees(decide.Observed{Existence: decide.Absent, Revision: s.Seen.Revision}, now)
		return true
	default: // it has our label, but is not ours
		if before.Existence == decide.Unseen {
			it.sees(decide.Observed{Existence: decide.Absent}, now)
		}
		return false
	}
	it.sees(seen, now)
	before.Revision, seen.Revision = 0, 0
	return before != seen
}

// answered notes what an answer showed, unless something newer was seen. now is open
// time.
func (it *Item) answered(seen decide.Observed, now time.Duration) {
	if seen.Revision >= it.seen.revision {
		it.sees(seen, now)
	}
}

// sees replaces what was observed of an item. now is open time.
func (it *Item) sees(seen decide.Observed, now time.Duration) {
	switch {
	case seen.Existence != decide.Present || !seen.Terminating:
		it.doomed = 0
	case it.doomed == 0 || it.seen.id() != seen.UID:
		it.doomed = max(1, now)
	}
	it.seen = pack(seen)
}
