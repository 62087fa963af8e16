// Package agent keeps one cluster, the target, equal to the objects that a hub
// desires at its location, and reports their state. While the hub cannot be
// reached, it continues with the desired objects in its store on disk.
//
// A session with the hub (package hubclient) writes desired objects to the store (package
// store). A level-triggered reconciler (package reconcile) reads them, one identity at a time,
// compares them with the record of the last applied state and with the object at the target
// (package kubeclient), and carries out the decision of package decide. Its reports are sent
// from the store. Desired objects, records and reports are on disk; only observations are in
// memory (package worklist, which packages observe and orphans update). Package ownership
// determines which objects belong to the agent, package fields which of their values.
//
// The package must never delete an object at the target unless the store's intake has
// accepted the deletion, never change an object without proof that it belongs to the agent,
// and never hold a cache of objects. It links neither the hub, nor an API server, nor
// etcd.
package agent
