// Package hub is the agent's side of the protocol with its hub: the session that keeps
// the desired content, the reports, what is announced, and the question whether the
// hub's log continues the one by which something was written.
//
// What the hub says goes to the store, by store.Intake, and to whoever follows it; what
// it is told comes from the store. The package knows no target. It must never take an
// ended stream, an error or an answer of another log for a deletion.
package hub
