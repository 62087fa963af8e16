// Package demo is the first hour of a user: a hub, locations with their agents
// and an application, in one process, with a story that shows what happens and
// checks after every step that the invariants of the product hold.
//
// For clusters that are not given, spaces of a second hub stand in, with a controller
// that makes Deployments ready; the story says so. The package uses the hub, the agents
// and the clusters as any client would. It must never reach into them, and nothing but
// the command line may depend on it.
package demo
