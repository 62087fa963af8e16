// Package protocol is the contract of the agents' protocol as tests. TestHub judges a
// hub: the real one, and each that stands in for it in tests of agents. TestAgent judges
// an agent, by a hub that notes what an agent may not send. Client and Hub are the light
// side of each, for tests of the other.
//
// It knows what both sides say to each other, and must never know how either does it: it
// imports neither. It must not be imported by anything that ships.
package protocol
