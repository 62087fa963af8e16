// Package fields says, value by value, who owns an object at the target: what of it is
// released and how to leave that out, whether an answer has what was sent, and what of
// ours another writer has taken.
//
// All of it is pure, but for what a target alone knows of an object, which is asked for
// through an interface. Nothing here may change or remove a value that a policy
// releases, and what comparing costs is bounded, whatever objects are like.
package fields
