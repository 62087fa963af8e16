//go:build !soak

package faults

// moreFaults are for make soak alone.
func (*unseen) moreFaults() []outOfSight { return nil }
