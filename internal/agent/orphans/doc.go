// Package orphans searches the target for objects of the location that neither the store nor
// the hub know of: once for each new store, and for all of them when everything is to be
// removed. It changes nothing there: what it finds is observed from then on.
package orphans
