package agent_test

import (
	"errors"
	"strings"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// rescoped: an object whose CustomResourceDefinition is made again with another scope is gone, also if the agent was
// stopped meanwhile: its removal ends.
func rescoped(s *site) {
	t := s.t
	definition := strings.NewReplacer("example.org", "rescoped.example").Replace(crd)
	k := "team/rescoped.example/widgets/rescoped/w"
	served := func(text, path string) {
		t.Helper()
		env.KubectlIn(t, s.c.Kubeconfig, text, "apply", "-f", "-")
		env.Eventually(t, soon, func() error {
			_, err := env.TryKubectl(t, s.c.Kubeconfig, "get", "--raw", path)
			return err
		})
	}
	const namespaced = "/apis/rescoped.example/v1/namespaces/rescoped/widgets"
	for _, runs := range []bool{true, false} {
		served(definition, namespaced)
		s.hub.Put(k, "uid-w", `{"apiVersion":"rescoped.example/v1","kind":"Widget","metadata":{"name":"w","namespace":"rescoped"},"spec":{"n":1}}`)
		if s.agent == nil {
			s.start()
		}
		s.reports(k, wire.Applied, "")
		if !runs {
			s.halt()
		}
		env.Kubectl(t, s.c.Kubeconfig, "delete", "crd", "widgets.rescoped.example")
		env.KubectlIn(t, s.c.Kubeconfig, strings.Replace(definition, `"scope":"Namespaced"`, `"scope":"Cluster"`, 1), "apply", "-f", "-")
		env.Kubectl(t, s.c.Kubeconfig, "wait", "--for=condition=Established", "crd/widgets.rescoped.example", "--timeout="+soon.String())
		s.hub.Del(k, wire.Deleted)
		if !runs {
			s.start()
		}
		env.Eventually(t, soon, func() error {
			if _, reported := s.hub.Report(k); reported {
				return errors.New("it is still reported")
			}
			return nil
		})
		env.Kubectl(t, s.c.Kubeconfig, "delete", "crd", "widgets.rescoped.example")
	}
}
