// Package operator shows what operators do about a location, on real parts: inspect it,
// accept a restored log, confirm removals, pause, revoke, remove and purge it.
package operator
