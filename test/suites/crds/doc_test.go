// Package crds uses CRDs of spaces as stock clients do, kubectl and client-go,
// against the hub binary: what a client sees of a resource from the moment it
// is defined until it is gone, and of one that two spaces define differently.
// What single requests answer is compared with a real API server in
// test/suites/conformance.
package crds
