// Package kubeclient makes the agent's requests to its cluster: discovery, reads, lists and
// watches, and writes, each with the field manager and preconditions of the caller. It
// also classifies the target's errors.
//
// Its only state is connections, credentials and the number of requests that the target can
// handle at once. It must not decide which objects belong to the agent, nor how they change.
package kubeclient
