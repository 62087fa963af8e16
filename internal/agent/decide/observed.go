package decide

import "orrery.dev/orrery/internal/protocol/ownership"

// Presence is what is observed of an identity at the target.
type Presence uint8

const (
	// Unseen: the resource has not been listed yet.
	Unseen Presence = iota
	// Unserved: the target does not serve the resource.
	Unserved
	// Blind: the agent cannot list or watch the resource.
	Blind
	// Absent: nothing with our label is there; a foreign object may be.
	Absent
	// Present: an object that proves to be ours is there.
	Present
	// Foreign: an object is there that does not prove to be ours.
	Foreign
)

// Observed is what is known of an identity at the target.
type Observed struct {
	Presence Presence
	// Terminating: the object is being deleted. Unmarked: it is ours by its UID only,
	// and the watch does not show it. Taken: the last look found a foreign object.
	// Owned: that object is not adopted, since a controller, or another location or shard, has it.
	// Inherited: it is of a location that is no more, which this one takes over. Heirloom:
	// it was of such a one.
	// Released: it has fields of ownership.ReleasedManager.
	Terminating, Unmarked, Taken, Owned, Released, Inherited, Heirloom bool

	UID      string
	Revision uint64
	Fields   ownership.FieldsHash
	// Log is the place in the log at which it was last written.
	Log ownership.Pair
	// Account is the ServiceAccount that acts for it by its marks.
	Account string
}

// ObservedOf is what is observed of an object of ours that was read.
func ObservedOf(m *ownership.Meta, l ownership.Owner) *Observed {
	return &Observed{
		Presence: Present, UID: m.UID, Revision: m.Revision(), Fields: m.Fields(l),
		Terminating: m.DeletionTimestamp != "", Released: m.Released(), Log: m.Log(), Account: m.Account(),
		Heirloom: len(m.TakenFrom()) > 0,
	}
}
