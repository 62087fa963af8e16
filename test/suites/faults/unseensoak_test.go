//go:build soak

package faults

import "syscall"

// moreFaults are found by timeouts, of the agent, the hub and the link, so each takes a minute and more.
func (u *unseen) moreFaults() []outOfSight {
	return []outOfSight{
		{"api-server-hangs", func() { u.Cluster.APIServer.Signal(syscall.SIGSTOP) }, func() { u.Cluster.APIServer.Signal(syscall.SIGCONT) }},
		{"agent-hangs", func() { u.Agent.Signal(syscall.SIGSTOP) }, func() { u.Agent.Signal(syscall.SIGCONT) }},
		{"link-cut", u.Link.Cut, u.Link.Heal},
	}
}
