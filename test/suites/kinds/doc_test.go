// Package kinds shows on real parts that every generally available kind of
// Kubernetes can be written to a space with stock clients, that a location gets
// exactly what was written, and what a real cluster makes of it.
//
// It knows the kinds from what a space's discovery lists and from the samples
// that the tests of internal/hub/kinds/builtin have, and nothing else of that package: what
// travels is compared with the samples, not with what the code thinks of them.
package kinds
