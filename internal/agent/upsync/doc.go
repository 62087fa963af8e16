// Package upsync finds at the target what was not placed and is asked for: objects that were
// born there, for the spaces that ask for them, and objects that belong to placed ones. It
// keeps their reports in the store equal to what lists and watches show.
//
// It holds no objects: of each that is observed only its UID, its owner and a hash. What was
// reported stays until a list or a watch proves that it is gone, or nobody asks any more. The
// package must never change anything at the target, nor write what an object has to a log.
package upsync
