// Package reconcile carries out the decisions of package decide, for one identity at a time. It
// reads the facts from store and target, acts, and leaves record and report in the store. It also
// answers inspect requests of the hub about the object at the target, which change nothing.
//
// It must never delete an object at the target unless the store's intake has accepted the
// deletion, and never touch an object that does not prove to be the agent's.
package reconcile
