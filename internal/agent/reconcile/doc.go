// Package reconcile carries out, for one identity at a time, what package decide says: it
// reads what the store has of it, asks the target for as much as the decision takes, does
// what was decided, and leaves record and report in the store. Beside that it tells what is
// at the target of an object, for whoever asks the hub, and changes nothing by that.
//
// It must never delete an object at the target unless the store's intake has accepted the
// deletion, and never touch an object that does not prove to be the agent's.
package reconcile
