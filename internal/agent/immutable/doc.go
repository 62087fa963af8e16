// Package immutable knows which fields an API server refuses to change: those of built-in
// kinds by a table, those of custom resources by the transition rules of their definition.
// It also makes the body of a dry run that changes everything but such fields.
//
// The package is pure. An object may be deleted on its word, so it must never take a refusal
// by a policy or webhook at the target for one of the API server itself, nor a field for
// immutable of which it does not know that.
package immutable
