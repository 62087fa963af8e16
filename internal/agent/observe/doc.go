// Package observe reports the objects of the target to the worklist, by a list and a watch of each kind in use.
// Its gate stops changes of the target while the hub halts the agent, or while the target does not answer.
//
// The package never changes an object of the target, and never decides about an object that it observes.
package observe
