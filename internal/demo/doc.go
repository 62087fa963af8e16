// Package demo is the first hour of a user: a hub, locations with their agents
// and an application, in one process, with a story that shows what happens and
// checks after every step that the invariants of the product hold.
//
// Clusters that are not given are stood in for by spaces of a second hub, with a
// controller that brings Deployments to ready; the story says so. The package
// uses the hub, the agents and the clusters as any client would. It must never
// reach into them, and nothing that ships may depend on it but the command line.
package demo
