// Package agent is the agent: it keeps one cluster, the target, equal to what
// a hub desires at its location, reports what happens there, and goes on doing
// so from its store on disk while the hub cannot be reached.
//
// A session with the hub (package hubclient) writes desired state to the store (package
// store); a level-triggered reconciler (package reconcile) reads it from there, one
// identity at a time, compares it with the record of what was applied and with what is
// observed at the target (package kubeclient), and does what package decide says; its
// reports go back through the store. What is desired, recorded and reported is on disk; in memory is
// only what is observed (package worklist, which packages observe and orphans tell). Package
// ownership tells which objects are the agent's, package fields which of their values.
//
// The package must never delete an object at the target unless the store's intake has
// accepted the deletion, never touch an object that does not prove to be the agent's,
// and never hold a cache of objects. It links neither the hub, nor an API server, nor
// etcd.
package agent
