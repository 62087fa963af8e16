package decide

import "orrery.dev/orrery/internal/protocol/ownership"

// Existence is how far the agent knows that an object exists at the target.
type Existence uint8

const (
	// Unseen: the resource has not been listed yet.
	Unseen Existence = iota
	// Unserved: the target does not serve the resource.
	Unserved
	// Blind: the agent cannot list or watch the resource.
	Blind
	// Absent: the target has no object with our label; a foreign object may exist.
	Absent
	// Present: an object exists that is ours.
	Present
	// Foreign: an object exists that is not ours.
	Foreign
)

// Observed is the agent's knowledge of an identity at the target.
type Observed struct {
	Existence Existence
	// Terminating: the object is being deleted. Unmarked: its UID alone proves that it is ours, and the watch
	// does not return it. Taken: the last inspection found a foreign object. Owned: the foreign object is not
	// adopted, since a controller, or another location or shard, has it. Inherited: it belongs to a deleted
	// location that this one takes over. Heirloom: it belonged to such a location. Released: it has fields of
	// ownership.ReleasedManager.
	Terminating, Unmarked, Taken, Owned, Released, Inherited, Heirloom bool

	UID      string
	Revision uint64
	Fields   ownership.FieldsHash
	// Log is the log position of its last write.
	Log ownership.Pair
	// Account is the ServiceAccount in its ownership metadata, which acts for it.
	Account string
}

// ObservedOf returns the observation of an object of ours that was read.
func ObservedOf(m *ownership.Meta, l ownership.Owner) *Observed {
	return &Observed{
		Existence: Present, UID: m.UID, Revision: m.Revision(), Fields: m.Fields(l),
		Terminating: m.DeletionTimestamp != "", Released: m.Released(), Log: m.Log(), Account: m.Account(),
		Heirloom: len(m.TakenFrom()) > 0,
	}
}
