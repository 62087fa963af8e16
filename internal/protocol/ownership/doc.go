// Package ownership defines the ownership metadata by which the agent recognizes its objects in the
// cluster: labels, annotations and managed fields. It reads them from objects, and creates the
// patches that set or remove them.
//
// The package is pure: bytes and values in, bytes and values out. The agent changes or deletes only
// objects that this package recognizes. It must therefore never recognize an object whose metadata
// is incomplete or differs.
package ownership
