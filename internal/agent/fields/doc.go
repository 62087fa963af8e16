// Package fields says who owns which values of an object at the target: which are
// released and how to leave them out of an apply, whether the answer to an apply has what
// was sent, which of our fields another writer has taken, and what of an object may be shown.
//
// The package is pure, but for what only the target knows of an object, which it asks for
// through an interface. It must never change or remove a released value, and the cost of
// comparing is bounded for any object.
package fields
