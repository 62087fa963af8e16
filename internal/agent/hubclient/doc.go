// Package hubclient is the agent's side of the protocol with its hub: the session that receives
// the desired content, the reports, the agent's status, answers to the hub's questions, and
// the proof that the hub's log continues the one from which an object was written.
//
// What the hub sends goes into the store, by store.Intake, and to a Follower; reports
// come from the store. The package does not know the target. It must never take an ended
// stream, an error, or an answer from another log for a deletion.
package hubclient
