// Package kubeclient makes the agent's requests to its cluster: discovery, reads, lists and
// watches, and writes, each with the field manager and preconditions of the caller. It
// also classifies the target's errors.
//
// It keeps nothing but connections and the pace at which the target can take requests. It
// must not decide which objects are the agent's, nor what happens to them.
package kubeclient
