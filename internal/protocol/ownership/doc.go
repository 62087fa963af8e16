// Package ownership has the ownership marks by which the agent knows its objects at the
// target: the labels, annotations and managed fields that it writes, how it reads them
// from an object, and the patches that set or remove them.
//
// The package is pure: bytes and values in, bytes and values out. What the agent may
// change or delete rests on these marks, so the package must never take an object for
// the agent's if a mark is missing or differs.
package ownership
