// Package worklist knows, in memory, each identity that concerns the agent: the observed object,
// whether it is desired, and its last reported state. It gives the identities to the workers in
// order, each to one worker at a time, and takes back the results. It knows the kinds to observe,
// receives the objects that lists, watches and answers show, and orders removals.
//
// All of it is behind one lock. The worklist must never block, do I/O (but for loading the store
// before the workers start), or call its users.
package worklist
