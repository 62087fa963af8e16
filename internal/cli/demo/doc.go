// Package demo implements `orrery demo`: a hub, locations with their agents and an application, in
// one process. It shows what happens, step by step, and checks after each step that the invariants
// of the product hold.
//
// Spaces of a second hub simulate clusters that are not given; a controller makes Deployments in
// them ready. The package uses hub, agents and clusters only through their APIs. Only the command
// line may depend on it.
package demo
