// Package fields computes with the managed fields of objects at the target. It finds the released values and
// leaves them out of an apply. It compares the answer to an apply with the request. It finds our fields that
// another writer has changed, and removes from an object the values that a client must not see.
//
// The package is pure, except that it requests from the target, through an interface, facts of an object that
// only the target has. It never changes or removes a released value, and the cost of a comparison is bounded for
// any object.
package fields
