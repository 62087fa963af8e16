// Package diagnoser finds out why placed objects are not healthy. For an object that was not healthy
// for some seconds, it reads the objects that it owns, and stores the diagnosis with the observed
// object, so that it is reported.
//
// It watches nothing, and reads with the rights of the ServiceAccount that acts for the object. It
// must never change anything at the cluster.
package diagnoser
