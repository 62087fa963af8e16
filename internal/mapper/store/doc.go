// Package store is what the agent keeps on disk: what is desired, what it has applied,
// what it has reported and what waits for a confirmation, in one file of which each
// transaction is whole or not there.
//
// Intake is the only way by which something comes to be desired or ceases to be: it
// decides what of a hub's frames is believed. A store that is damaged is set aside, and
// what was in it comes back from the hub; it must never give what was not committed.
package store
