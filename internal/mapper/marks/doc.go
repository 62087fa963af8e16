// Package marks is how the agent knows its own at the target: the labels, annotations
// and managed fields that it gives to what it writes, what of an object it reads to
// recognize them, and the patches that set them or take them away.
//
// All of it is pure: bytes and values in, bytes and values out. What the agent may
// change or delete rests on these marks, so the package must never take an object for
// the agent's own of which one is missing or says something else.
package marks
