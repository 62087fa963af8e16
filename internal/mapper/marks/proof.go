package marks

// Proof is what is known of the log by which an object at the target was written.
type Proof uint8

const (
	// Unneeded: the object is recorded or not there, or it is not ours.
	Unneeded Proof = iota
	// Given: it is the log that the agent follows, or an operator has accepted that.
	Given
	// Unasked: the hub has not said yet.
	Unasked
	// Missing: nothing says that it is.
	Missing
	// Proofs is how many there are.
	Proofs
)

// Waits says that nothing may be changed.
func (p Proof) Waits() bool { return p == Unasked || p == Missing }
