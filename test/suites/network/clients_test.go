package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// kubeconfig is one for the space, by an endpoint of the hub, with a token: where TLS ends
// on the way, the hub sees no certificate.
func (s *site) kubeconfig(endpoint string, args ...string) string {
	s.t.Helper()
	text := env.Orrery(s.t, s.Root, append([]string{"space", "kubeconfig", "shop", "--url", endpoint}, args...)...)
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// clients has stock clients do what they do: discovery, schemas, writes, watches, and a
// release from its installation to its end.
func (s *site) clients(kubeconfig, charts string) {
	s.t.Helper()
	if out := env.Kubectl(s.t, kubeconfig, "explain", "deployment.spec.replicas"); !strings.Contains(out, "FIELD: replicas") {
		s.t.Errorf("kubectl explain: %s", out)
	}
	if out := env.Kubectl(s.t, kubeconfig, "api-resources"); !strings.Contains(out, "placements") {
		s.t.Errorf("kubectl api-resources: %s", out)
	}
	watch := env.StartKubectl(s.t, kubeconfig, "get", "configmaps", "--watch-only", "-o", "name", "-l", "app=shop")
	defer watch.Kill()
	helm := func(args ...string) {
		s.t.Helper()
		env.Command{Binary: "helm", Kubeconfig: kubeconfig, Args: args}.Run(s.t)
	}
	helm("install", "shop", charts)
	helm("upgrade", "shop", charts, "--set", "v=second")
	env.Eventually(s.t, world.Soon, func() error {
		o, err := s.site.Get(s.t, world.ConfigMaps, metav1.NamespaceDefault, "shop-config")
		if err == nil && fmt.Sprint(o.Object["data"]) != "map[v:second]" {
			err = fmt.Errorf("it has %v", o.Object["data"])
		}
		return err
	})
	env.Eventually(s.t, world.Soon, func() error {
		if !strings.Contains(watch.Stdout(), "configmap/") {
			// It may have begun only after the release, or have been cut in silence.
			_, err := env.TryKubectl(s.t, kubeconfig, "annotate", "configmap", "shop-config", "--overwrite", fmt.Sprint("at=", time.Now().UnixNano()))
			return errors.Join(errors.New("the watch has not heard of the release"), err)
		}
		return nil
	})
	helm("uninstall", "shop")
	env.Eventually(s.t, world.Soon, func() error {
		if _, err := s.site.Get(s.t, world.ConfigMaps, metav1.NamespaceDefault, "shop-config"); err == nil {
			return errors.New("the release is still there")
		}
		return nil
	})
}

// staysQuiet shows that the session lives through twice the silence that the
// network bears.
func (s *site) staysQuiet(a *env.Agent, seconds int) {
	s.t.Helper()
	long := 2 * time.Duration(seconds) * time.Second
	env.Eventually(s.t, world.Soon, func() error {
		status, err := agent.ReadStatus(a.Dir)
		if err == nil && (!status.Connected || time.Since(status.Since) < long) {
			err = fmt.Errorf("connected %v since %s", status.Connected, status.Since)
		}
		return err
	})
}
