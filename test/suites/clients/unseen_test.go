package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/rollout"
	"orrery.dev/orrery/test/support/world"
)

// clientTimeout is the timeout with which clients are started that must not succeed.
const clientTimeout = 3 * time.Second

// TestUnseenByClients runs clients that wait for objects and for their Placement: Helm, Flux's apply engine,
// kubectl wait and kubectl rollout status. None of them succeeds while the site has an earlier version, or cannot be
// observed. All of them succeed once the site is as desired.
func TestUnseenByClients(t *testing.T) {
	w := world.New(t, "--heartbeat=1s", "--disconnected-after=3s")
	s := &space{hub: w.Hub, kubeconfig: w.AddSpace("shop")}
	s.apply(t, rollout.Everywhere)
	u := &unseenSite{t: t, w: w, s: s, Site: w.Join("edge", nil, env.APIOnly()), chart: waitedChart(t), flux: fluxManager(t, s.config())}
	w.Eventually("the kind is served", func() error {
		_, err := env.TryKubectl(t, s.kubeconfig, "get", "gizmos")
		return err
	})
	u.write("1")
	s.helm(t, "install", "waited", u.chart, "--set=version=1")
	u.finish("1")
	u.allSucceed(u.start("1"))

	env.Orrery(t, w.Root, "location", "pause", "edge")
	w.Eventually("the agent has halted", func() error {
		if halted := env.Kubectl(t, w.Root, "get", "location", "edge", "-o", "jsonpath={.status.agent.halted}"); halted == "" {
			return errors.New("it has not")
		}
		return nil
	})
	u.write("2")
	u.isNotReady()
	u.noneSucceeds("2", "the site has an earlier version")
	clients := u.start("2")
	u.noneHasEnded(clients, "the site has an earlier version")
	env.Orrery(t, w.Root, "location", "resume", "edge")
	u.finish("2")
	u.allSucceed(clients)

	u.Agent.Kill()
	for _, o := range u.objects("2") {
		w.Eventually(o.GetKind()+" "+o.GetName()+" is Reconciling", func() error {
			status := env.Kubectl(t, s.kubeconfig, "get", o.GetKind(), o.GetName(), "-o", "jsonpath={.status}")
			if !strings.Contains(status, `"Reconciling"`) {
				return errors.New(status)
			}
			return nil
		})
	}
	u.isNotReady()
	u.noneSucceeds("2", "the site cannot be observed")
	clients = u.start("2")
	u.noneHasEnded(clients, "the site cannot be observed")
	u.Agent.Start()
	u.allSucceed(clients)
}

// unseenSite is a site with objects for which clients wait: those named helm, of a chart, and those
// named flux.
type unseenSite struct {
	*world.Site
	t     *testing.T
	w     *world.World
	s     *space
	chart string
	flux  *ssa.ResourceManager
}

// waitedChart writes a chart of the waited objects.
func waitedChart(t *testing.T) string {
	t.Helper()
	chart := t.TempDir()
	template := rollout.Objects("helm", "{{ .Values.version }}")
	for name, content := range map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: waited, version: 0.1.0}", "values.yaml": `version: "1"`, "templates/waited.yaml": template,
	} {
		file := filepath.Join(chart, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chart
}

// objects returns the objects that Flux applies.
func (u *unseenSite) objects(version string) []*unstructured.Unstructured {
	u.t.Helper()
	return fluxObjects(u.t, rollout.Objects("flux", version))
}

// write applies a version by Flux's engine. Helm writes it when it is started.
func (u *unseenSite) write(version string) {
	u.t.Helper()
	if _, err := u.flux.ApplyAllStaged(u.t.Context(), u.objects(version), ssa.DefaultApplyOptions()); err != nil {
		u.t.Fatal(err)
	}
}

// finish waits until the site has a version of all objects, and calls it done as controllers do.
func (u *unseenSite) finish(version string) {
	u.t.Helper()
	for _, name := range []string{"helm", "flux"} {
		rollout.Finish(u.t, u.w, u.Site, name, version)
	}
}

// waitingClient is a client that waits until objects are done.
type waitingClient struct {
	name string
	// wait returns nil when the client has succeeded.
	wait func(version string, timeout time.Duration) error
	// waits is part of the error of a client that has found objects that are not done.
	waits string
}

func (u *unseenSite) clients() []waitingClient {
	command := func(binary string, args ...string) func(string, time.Duration) error {
		return func(version string, timeout time.Duration) error {
			all := make([]string, 0, len(args)+1)
			for _, arg := range args {
				all = append(all, strings.ReplaceAll(arg, "VERSION", version))
			}
			_, err := env.Command{Binary: binary, Kubeconfig: u.s.kubeconfig, Args: append(all, "--timeout="+timeout.String())}.Try(u.t)
			return err
		}
	}
	return []waitingClient{
		{"helm upgrade --wait", command("helm", "upgrade", "waited", u.chart, "--set=version=VERSION", "--wait"), "not ready"},
		{"kubectl rollout status", command("kubectl", "rollout", "status", "deployment/flux"), "timed out waiting for the condition"},
		{"kubectl wait, Deployment", command("kubectl", "wait", "deployment/flux", "--for=condition=Available"), "timed out waiting for the condition"},
		{"kubectl wait, Gizmo", command("kubectl", "wait", "gizmo/flux", "--for=condition=Ready"), "timed out waiting for the condition"},
		{"kubectl wait, Placement", command("kubectl", "wait", "placement/edge", "--for=condition=Ready"), "timed out waiting for the condition"},
		{"Flux", func(version string, timeout time.Duration) error {
			return u.flux.Wait(u.objects(version), ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: timeout})
		}, "InProgress"},
		{"Flux, Placement", func(_ string, timeout time.Duration) error {
			return u.flux.Wait(fluxObjects(u.t, rollout.Everywhere)[1:], ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: timeout})
		}, "InProgress"},
	}
}

// isNotReady waits until the Placement is not Ready: its counts follow its objects after a moment.
func (u *unseenSite) isNotReady() {
	u.t.Helper()
	u.w.Eventually("the Placement is not Ready", func() error {
		is := env.Kubectl(u.t, u.s.kubeconfig, "get", "placement", "edge", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if is != "False" && is != "Unknown" {
			return fmt.Errorf("its condition Ready is %q", is)
		}
		return nil
	})
}

// noneSucceeds starts each client with a short timeout: it finds objects that are not done.
func (u *unseenSite) noneSucceeds(version, why string) {
	u.t.Helper()
	u.t.Run(why, func(t *testing.T) {
		for _, c := range u.clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				for timeout := clientTimeout; ; timeout *= 2 { // on a busy machine a client takes long until it waits
					err := c.wait(version, timeout)
					if err == nil {
						t.Fatalf("it succeeds, although %s", why)
					}
					if strings.Contains(err.Error(), c.waits) {
						return
					}
					if timeout > soon {
						t.Fatalf("within %s it does not come to wait: %v", timeout, err)
					}
				}
			})
		}
	})
}

// ending is the end of a client.
type ending struct {
	name string
	err  error
}

// start starts all clients.
func (u *unseenSite) start(version string) <-chan ending {
	all := u.clients()
	ended := make(chan ending, len(all))
	for _, c := range all {
		go func() { ended <- ending{c.name, c.wait(version, soon)} }()
	}
	return ended
}

// noneHasEnded checks that all clients run.
func (u *unseenSite) noneHasEnded(clients <-chan ending, why string) {
	u.t.Helper()
	select {
	case e := <-clients:
		u.t.Fatalf("%s ended with error %v, although %s", e.name, e.err, why)
	default:
	}
}

// allSucceed waits until all clients have succeeded.
func (u *unseenSite) allSucceed(clients <-chan ending) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 2*soon)
	defer cancel()
	for range cap(clients) {
		select {
		case e := <-clients:
			if e.err != nil {
				u.t.Errorf("%s: %v", e.name, e.err)
			}
		case <-ctx.Done():
			u.t.Fatalf("a client has not ended after %s", 2*soon)
		}
	}
}
