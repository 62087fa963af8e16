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
	"orrery.dev/orrery/test/support/ports"
	"orrery.dev/orrery/test/support/world"
)

// TestMove moves a hub to another URL, which its agents receive from it, and back when the new URL
// does not answer.
func TestMove(t *testing.T) {
	t.Parallel()
	old, next := ports.Reserve(t), ports.Reserve(t)
	hub := env.StartHub(t, "--advertise", "old=https://"+old)
	pass := func(listen string) *env.Proxy {
		t.Helper()
		return env.StartBalancer(t, listen, fmt.Sprintf("listen hub\n  mode tcp\n  bind %s\n  server hub %s\n", listen, strings.TrimPrefix(hub.URL, "https://")))
	}
	before := pass(old)
	s := siteOf(t, world.ForHub(t, hub))
	a := s.join(nil)
	s.reaches(a, "https://"+old)

	// While the announced URL does not answer, the agent keeps the old one.
	hub.Flags("--advertise", "next=https://"+next)
	s.prefer("next")
	hub.Restart()
	s.reaches(a, "https://"+old)
	after := pass(next)
	s.moves(a, "https://"+next)
	s.travels("moved", s.space)
	before.Kill()
	s.travels("old-ended", s.space)

	// After a restart, the agent uses the new URL, too.
	a.Restart()
	s.reaches(a, "https://"+next)

	before.Again()
	after.Kill()
	s.reaches(a, "https://"+old)
	s.travels("fallen-back", s.space)
	after.Again()
	s.moves(a, "https://"+next)

	if out := env.OrreryFails(t, s.Root, "location", "add", "rome", "--url", "nowhere"); !strings.Contains(out, `the hub does not advertise "nowhere", but old, next`) {
		t.Errorf("a URL that the hub does not advertise: %s", out)
	}
}

// TestRotateCA replaces the hub's authority while an agent, a watch and kubeconfigs go on.
func TestRotateCA(t *testing.T) {
	t.Parallel()
	s := siteOf(t, world.New(t))
	a := s.join(nil)
	s.reaches(a, s.Hub.URL)
	joined := s.since(a)
	watch := env.StartKubectl(t, s.kubeconfig(""), "get", "configmaps", "--watch", "-o", "name")
	first, operator := s.kubeconfig(""), s.copied()
	rotate := func(step, want string, args ...string) {
		t.Helper()
		if out := env.Orrery(t, s.Root, append([]string{"hub", "rotate-ca", step, "--data-dir", s.Hub.Dir}, args...)...); !strings.HasPrefix(out, want+": ") {
			t.Errorf("rotate-ca %s: %s", step, out)
		}
	}
	works := func(kubeconfig string, want bool) {
		t.Helper()
		env.Eventually(t, world.Soon, func() error {
			_, err := env.TryKubectl(t, kubeconfig, "get", "configmaps")
			if err == nil && !want {
				return errors.New("it works")
			}
			if want {
				return err
			}
			return nil
		})
	}
	rotate("start", "announced")
	s.trusts(2)
	second := s.kubeconfig("")
	works(first, true)
	rotate("switch", "switched")
	works(first, false)
	works(second, true)
	works(operator, false) // it trusts one that the server's certificate is not of any more
	works(s.Hub.Kubeconfig, true)
	both := s.copied()
	// The agent renews its certificate, which it is asked for in its session; until then the
	// last step would lock it out.
	s.ready("all agents are ready")
	var since string
	env.Eventually(t, world.Soon, func() error { // the status is written once a second
		s.reaches(a, s.Hub.URL)
		status, err := agent.ReadStatus(a.Dir)
		if since = status.Since.String(); err == nil && (!status.Connected || since == joined) {
			err = fmt.Errorf("the session with the new certificate is not in the status yet: connected %t since %s", status.Connected, since)
		}
		return err
	})
	rotate("finish", "settled")
	s.trusts(1)
	works(second, true)
	works(s.Hub.Kubeconfig, true)
	works(both, true) // its certificate is of the authority that stays
	if now := s.since(a); now != since {
		t.Errorf("the session was opened anew: at %s, before at %s", now, since)
	}
	s.travels("rotated", second)
	env.Eventually(t, world.Soon, func() error {
		if !watch.Running() || !strings.Contains(watch.Stdout(), "configmap/rotated") {
			return errors.New("the watch has not received it")
		}
		return nil
	})
	a.Restart()
	s.reaches(a, s.Hub.URL)
	s.Hub.Restart()
	s.reaches(a, s.Hub.URL)
}

// TestRotateCAMeanwhile replaces the certificate authority while an agent is stopped. An agent that
// has received the new authority before reconnects by itself. An agent that has not logs the remedy.
func TestRotateCAMeanwhile(t *testing.T) {
	t.Parallel()
	s := siteOf(t, world.New(t))
	a := s.join(nil)
	s.reaches(a, s.Hub.URL)
	rotate := func(step string, args ...string) {
		t.Helper()
		env.Orrery(t, s.Root, append([]string{"hub", "rotate-ca", step, "--data-dir", s.Hub.Dir}, args...)...)
	}
	refused := func(step, why string) {
		t.Helper()
		if out := env.OrreryFails(t, s.Root, "hub", "rotate-ca", step, "--data-dir", s.Hub.Dir); !strings.Contains(out, "edge: "+why) {
			t.Errorf("rotate-ca %s: %s", step, out)
		}
	}
	rotate("start")
	s.trusts(2)
	a.Kill()
	rotate("switch")
	refused("finish", "its certificate was signed by ")
	s.ready("waits for:\n  edge: ")
	rotate("finish", "--force")
	space := s.kubeconfig("")
	a.Start()
	s.reaches(a, s.Hub.URL)
	s.travels("told", space)

	s.trusts(1)
	a.Kill()
	rotate("start")
	refused("switch", "it trusts ")
	rotate("switch", "--force")
	rotate("finish", "--force")
	a.Start()
	s.hasLastError(a, "start the agent with a new join token, created with: orrery location token NAME")
	if !strings.Contains(a.Stderr(), "level=ERROR") {
		t.Error("the agent does not log an error that it cannot reconnect")
	}
	a.Stop()
	a.Start("--join", strings.TrimSpace(env.Orrery(t, s.Root, "location", "token", "edge", "--token-only")))
	s.reaches(a, s.Hub.URL)
	s.travels("visited", s.kubeconfig(""))
}

// moves waits until an agent has a session at a URL that did not answer for a while. The agent
// retries such a URL after a time as long as the outage.
func (s *site) moves(a *env.Agent, url string) {
	s.t.Helper()
	s.reachesWithin(a, url, 4*world.Soon)
}

// renewedSoon bounds the time until an agent has renewed its credential on request: it keeps each
// credential for at least a minute.
const renewedSoon = 3 * world.Soon

// ready waits until orrery hub rotate-ca lists the agents for which the next step waits.
func (s *site) ready(want string) {
	s.t.Helper()
	env.Eventually(s.t, renewedSoon, func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: s.Root, Args: []string{"hub", "rotate-ca", "--data-dir", s.Hub.Dir}}.Try(s.t)
		if err == nil && !strings.Contains(out, want) {
			err = errors.New(out)
		}
		return err
	})
}

// since returns the start of the session of the agent.
func (s *site) since(a *env.Agent) string {
	s.t.Helper()
	status, err := agent.ReadStatus(a.Dir)
	if err != nil || !status.Connected {
		s.t.Fatalf("connected %v: %v", status.Connected, err)
	}
	return status.Since.String()
}

// trusts waits until the agent reports to the hub that it trusts n certificate authorities.
func (s *site) trusts(n int) {
	s.t.Helper()
	env.Eventually(s.t, world.Soon, func() error {
		out, err := env.TryKubectl(s.t, s.Root, "get", "location", "edge", "-o", "jsonpath={.status.agent.trusts[*]}")
		if err == nil && len(strings.Fields(out)) != n {
			err = fmt.Errorf("it trusts %s", out)
		}
		return err
	})
}

// copied returns a copy of the present kubeconfig of the operator.
func (s *site) copied() string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	b, err := os.ReadFile(s.Hub.Kubeconfig)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return file
}
