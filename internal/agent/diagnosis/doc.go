// Package diagnosis finds the reason why an object at the cluster is not healthy, in the
// objects that it owns: Pods, ReplicaSets, volume claims and their events.
//
// It is pure: a diagnosis is a function of the evidence. The package must not send requests.
package diagnosis
