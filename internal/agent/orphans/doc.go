// Package orphans searches the target for objects of the location that neither the store nor the hub has: once
// for each new store, for a purge, and for the objects of a location that this one takes over. Apart from the
// takeover it changes no object: the agent observes the kinds of the objects that it finds.
package orphans
