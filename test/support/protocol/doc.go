// Package protocol has the contract of the protocol between hub and agents, as tests. TestHub tests a
// hub: the real one, and each fake hub in tests of agents. TestAgent tests an agent, with a hub that
// records requests that an agent must not send. Client is a minimal agent for tests of hubs, and Hub a
// minimal hub for tests of agents.
//
// The package knows the messages of both sides, and must never depend on the implementation of
// either: it imports neither. No shipped program may import it.
package protocol
