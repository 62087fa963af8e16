// Package faults breaks a whole system in many ways, and shows that the invariants hold
// again afterwards and that nothing was lost or replaced in between. Hub, agents and
// target clusters are processes, and the links between them fail as real ones do.
package faults
