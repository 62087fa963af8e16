package env

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"orrery.dev/orrery/test/support/ports"
)

// Etcd is an etcd process, for a hub with an external log.
// Process.Kill and Process.Stop end it; it can then be started again.
type Etcd struct {
	*Process
	// URL is the client URL, without TLS.
	URL string

	t    T
	dir  string
	peer string
	args []string
}

// StartEtcd starts an empty etcd with further flags, and waits until it is ready.
func StartEtcd(t T, args ...string) *Etcd {
	t.Helper()
	dir := t.TempDir()
	e := newEtcd(t, newProcess(t, "etcd", "etcd", dir), dir, args...)
	e.Start()
	return e
}

func newEtcd(t T, p *Process, dir string, args ...string) *Etcd {
	t.Helper()
	return &Etcd{Process: p, URL: "http://" + ports.Reserve(t), t: t, dir: filepath.Join(dir, "etcd"), peer: "http://" + ports.Reserve(t), args: args}
}

// Dir returns the data directory.
func (e *Etcd) Dir() string { return e.dir }

// Start starts etcd, also after Kill or Stop, and waits until it is healthy.
func (e *Etcd) Start() {
	e.t.Helper()
	e.start(append([]string{
		"--name=test", "--data-dir=" + e.dir, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + e.URL, "--advertise-client-urls=" + e.URL,
		"--listen-peer-urls=" + e.peer, "--initial-advertise-peer-urls=" + e.peer, "--initial-cluster=test=" + e.peer,
	}, e.args...)...)
	Eventually(e.t, startTimeout, func() error {
		if !e.Running() {
			e.t.Fatalf("%s ended: %s\n%s", e.name, e.cmd.ProcessState, tail(e.stderr))
		}
		ctx, cancel := context.WithTimeout(e.t.Context(), checkTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/health", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("etcd is not healthy: %s", resp.Status)
		}
		return nil
	})
}

// Restore replaces the data of an etcd that does not run by a snapshot. It uses etcdutl with further
// flags.
func (e *Etcd) Restore(snapshot string, args ...string) {
	e.t.Helper()
	if e.Running() {
		e.t.Fatalf("restore %s: it is running", e.name)
	}
	if err := os.RemoveAll(e.dir); err != nil {
		e.t.Fatalf("restore %s: %v", e.name, err)
	}
	Command{Binary: "etcdutl", Args: append([]string{"snapshot", "restore", snapshot, "--data-dir", e.dir,
		"--name=test", "--initial-cluster=test=" + e.peer, "--initial-advertise-peer-urls=" + e.peer}, args...)}.Run(e.t)
}

// WithoutClients runs etcd at another URL while f runs, so that its clients cannot reach it.
func (e *Etcd) WithoutClients(f func(url string)) {
	e.t.Helper()
	url := e.URL
	e.URL = "http://" + ports.Reserve(e.t)
	e.Start()
	f(e.URL)
	e.Signal(syscall.SIGTERM) // its exit code is not 0
	if _, ended := e.Wait(Soon); !ended {
		e.t.Fatalf("stop %s: it was still running after %s", e.name, Soon)
	}
	e.URL = url
}
