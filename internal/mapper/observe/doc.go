// Package observe has the engine know what is at the target: a list and a watch of each kind
// in use, and a gate that closes while nothing may be changed there, by the hub's word or
// since the target does not answer.
package observe
