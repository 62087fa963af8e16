// Package flux tests spaces with the controller of Flux that applies objects. That controller takes
// minutes to compile, so only make soak runs its tests.
package flux
