// Package faults breaks a whole system in every way that can be thought of, and
// shows that the invariants come back and that nothing was lost or replaced in
// between: hub, agents and target clusters are processes, and the links between
// them fail as links do.
package faults
