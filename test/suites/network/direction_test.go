package network

import (
	"errors"
	"net/url"
	"strconv"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestOnlyAgentsConnect uses a site to which no other host can open a connection. Everything works,
// since the agent opens all connections, and listens for none.
func TestOnlyAgentsConnect(t *testing.T) {
	t.Parallel()
	n := env.StartNetwork(t)
	s := siteOf(t, world.ForHub(t, n.StartHub()))
	kubeconfig := n.Kubeconfig(s.cluster)
	env.Eventually(t, world.Soon, func() error {
		if !n.Reach() {
			return errors.New("nothing is in the way yet, and the site can't be connected to")
		}
		return nil
	})
	n.OutwardOnly(s.Hub.URL)
	if n.Reach() {
		t.Fatal("the site can be connected to")
	}
	a := s.join(func(a *env.Agent) { a.Within(n) }, "--kubeconfig", kubeconfig)
	s.reaches(a, s.Hub.URL)
	s.travels("outward", s.space)
	s.Hub.Restart()
	s.reaches(a, s.Hub.URL)
	s.travels("again", s.space)

	for _, socket := range a.Sockets() {
		if socket.Listens {
			t.Errorf("the agent listens on port %d", socket.Port)
		}
	}
	u, err := url.Parse(s.Hub.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range s.Hub.Sockets() {
		if strconv.Itoa(socket.Port) != u.Port() {
			t.Errorf("the hub has a socket of port %d, and serves on %s", socket.Port, u.Port())
		}
	}
}
