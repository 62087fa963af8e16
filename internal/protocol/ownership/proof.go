package ownership

// Proof reports whether an object in the cluster is known to be written from the hub's log.
type Proof uint8

const (
	// Unneeded: the object is recorded, does not exist, or is not ours.
	Unneeded Proof = iota
	// Given: the object was written from the hub's log, or an administrator has accepted that log.
	Given
	// Unasked: the hub has not responded yet.
	Unasked
	// Missing: the hub's log is not known to contain it.
	Missing
	// Proofs is the number of values.
	Proofs
)

// Waits reports whether the object must not be changed yet.
func (p Proof) Waits() bool { return p == Unasked || p == Missing }
