// Package e2e shows the main job on real parts: hub, agents and kubectl as
// processes, and target clusters that are real kube-apiservers with pods that
// run. What a user does is done with stock clients only.
package e2e
