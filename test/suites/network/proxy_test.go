package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestProxy has a site whose only way out is a proxy that wants a user and a password:
// named by the environment, and by flags that a later start need not repeat; and clients
// whose kubeconfig names it.
func TestProxy(t *testing.T) {
	t.Parallel()
	n := env.StartNetwork(t)
	s := siteOf(t, world.ForHub(t, n.StartHub()))
	const right, wrong = "r1ght-s3cret", "wr0ng-s3cret"
	squid := env.StartAsking(t, n.ClusterSide, "site", right)
	with := func(password string) string { return fmt.Sprintf("http://site:%s@%s", password, squid.Address) }
	kubeconfig := n.Kubeconfig(s.cluster)
	n.Lose()

	a := s.join(func(a *env.Agent) {
		a.Within(n)
		a.Setenv("HTTPS_PROXY="+with(wrong), "NO_PROXY="+n.ClusterSide)
	}, "--kubeconfig", kubeconfig)
	s.hasLastError(a, "rejects the user and password (407")
	a.Stop()
	a.Setenv("HTTPS_PROXY=" + with("%zz"+right))
	a.Start()
	s.hasLastError(a, "HTTPS_PROXY in the agent's environment is not the URL of a proxy")
	a.Stop()
	a.Setenv("HTTPS_PROXY=" + with(right))
	a.Start()
	s.reaches(a, s.Hub.URL)
	s.travels("asked", s.space)
	a.Stop()

	file := filepath.Join(t.TempDir(), "proxy")
	if err := os.WriteFile(file, []byte(with(right)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Setenv("HTTPS_PROXY=")
	a.Start("--proxy-file", file)
	s.reaches(a, s.Hub.URL)
	a.Restart()
	s.reaches(a, s.Hub.URL)
	s.travels("asked-by-file", s.space)
	for _, name := range []string{a.Stderr(), a.Stdout(), read(t, a.Dir, "status.json"), read(t, a.Dir, "setup.json"), read(t, a.Dir, "hub.json")} {
		if strings.Contains(name, right) || strings.Contains(name, wrong) {
			t.Errorf("the log or a file of the agent contains the password:\n%s", name)
		}
	}

	proxied := s.kubeconfig("", "--proxy-url", "http://"+squid.Address)
	set := func(password string) {
		t.Helper()
		env.Kubectl(t, proxied, "config", "set-cluster", "shop", "--proxy-url", with(password))
	}
	if out := env.KubectlFails(t, proxied, "get", "configmaps"); !strings.Contains(out, "Proxy Authentication Required") {
		t.Errorf("kubectl without a password: %s", out)
	}
	set(right)
	s.clients(proxied, chart(t))
}

// hasLastError waits until the last error of the agent contains a text.
func (s *site) hasLastError(a *env.Agent, text string) {
	s.t.Helper()
	env.Eventually(s.t, world.Soon, func() error {
		status, err := agent.ReadStatus(a.Dir)
		if err == nil && !strings.Contains(status.LastError, text) {
			err = errors.New("the last error is " + status.LastError)
		}
		return err
	})
}

// read returns the content of a file; empty if it does not exist.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}
