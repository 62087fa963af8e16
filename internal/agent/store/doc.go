// Package store is what the agent keeps on disk: the desired content, records of what it
// has applied, reports, and removals that wait for a confirmation, in one file with atomic
// transactions.
//
// Intake is the only way by which something becomes desired or ceases to be: it decides
// what of a hub's frames is believed. A damaged store is set aside, and its content comes
// back from the hub. The package must never return what was not committed.
package store
