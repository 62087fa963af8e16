// Package hubclient is the agent's side of the protocol with its hub: the session that receives
// the desired objects, the reports, the agent's status, responses to inspect requests, and
// the proof that the hub's log contains the log position of an object.
//
// The frames of a session are stored by store.Intake and passed to a Follower; reports are read
// from the store. The package does not know the target. It must never interpret the end of a
// stream, an error, or a response from another log as a deletion.
package hubclient
