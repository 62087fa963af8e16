package clients

import (
	"testing"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// space is a space of a hub of its own, as its user has it.
type space struct {
	hub        *env.Hub
	kubeconfig string
}

func newSpace(t *testing.T) *space {
	t.Helper()
	hub := env.StartHub(t)
	env.CreateSpace(t, hub.Kubeconfig, "shop")
	return &space{hub: hub, kubeconfig: hub.PathKubeconfig("spaces/shop")}
}

// config is a client's configuration, without a limit of its own.
func (s *space) config() *rest.Config { return s.hub.PathConfig("spaces/shop") }
