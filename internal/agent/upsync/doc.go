// Package upsync finds and reports the objects at the target that no Placement put there and that a space
// requests: upsynced objects, and objects that belong to placed ones. It keeps the reports in the store equal to
// the results of lists and watches.
//
// Of each observed object it holds only the UID, the owner, a hash and a size. A report stays until a list or a
// watch proves that the object is deleted, or no space requests it any more. The package never changes an object
// at the target, and never logs the content of an object.
package upsync
