// Package target makes the agent's requests to its cluster: what it serves, what is
// there, and the writes, each under the field manager and with the preconditions that
// the caller names; and it tells what an error of the target means.
//
// It keeps nothing but connections and the pace at which the target can be worked on.
// It decides nothing: which object is the agent's, and what becomes of it, others say.
package target
