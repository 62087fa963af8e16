package ownership

// Proof says whether an object at the target is known to be written from the hub's log.
type Proof uint8

const (
	// Unneeded: the object is recorded, is not there, or is not ours.
	Unneeded Proof = iota
	// Given: it was written from the hub's log, or an operator has accepted that log.
	Given
	// Unasked: the hub has not answered yet.
	Unasked
	// Missing: the hub's log is not known to have it.
	Missing
	// Proofs is the number of values.
	Proofs
)

// Waits says that the object must not be changed yet.
func (p Proof) Waits() bool { return p == Unasked || p == Missing }
