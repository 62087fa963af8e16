// Package observe tells the engine what is at the target, by a list and a watch of each kind
// in use, and has the gate that closes while nothing may be changed there: because the hub
// halts the agent, or because the target does not answer.
//
// It must never change anything at the target, nor decide what is done about what it sees.
package observe
