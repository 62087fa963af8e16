// Package store keeps the agent's state on disk, in one file with atomic transactions.
//
// A Tx has a bucket for each kind of data: Desired has the desired entries, Records the objects that the
// agent applied, Observed those objects as they were last seen at the cluster, Reports the reports for the
// hub, and Removals the removals that wait for a confirmation. Hub and Target change Meta, which has the
// facts that do not belong to one object.
//
// Only an Intake makes objects desired, or cease to be desired: it decides which frames of a hub the agent
// believes. A damaged store is set aside, and the hub sends its content again. The package never returns
// data that was not committed.
package store
