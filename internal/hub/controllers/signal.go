package controllers

import (
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/retry"
)

// Signal is an observer of the table that wakes one loop. The loop reads the table for changes.
type Signal struct{ retry.Signal }

// NewSignal returns a Signal that is not raised.
func NewSignal() Signal { return Signal{retry.NewSignal()} }

// Reset wakes the loop.
func (s Signal) Reset() { s.Raise() }

// Observe wakes the loop.
func (s Signal) Observe(int64, []table.Change) { s.Raise() }
