package env

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// Etcd is an etcd process, for a hub whose log is not in its own process.
type Etcd struct {
	*Process
	// URL is where clients reach it, without TLS.
	URL string
}

// StartEtcd returns an empty etcd, with further flags, that is ready.
func StartEtcd(t T, args ...string) *Etcd {
	t.Helper()
	dir := t.TempDir()
	p := newProcess(t, "etcd", "etcd", dir)
	return &Etcd{Process: p, URL: runEtcd(t, p, dir, args...)}
}

// runEtcd starts an etcd below dir with further flags, waits until it is healthy and returns its URL.
func runEtcd(t T, p *Process, dir string, args ...string) string {
	t.Helper()
	client, peer := "http://"+address(t), "http://"+address(t)
	p.start(append([]string{
		"--name=test", "--data-dir=" + filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer,
	}, args...)...)
	Eventually(t, startTimeout, func() error {
		if !p.Running() {
			t.Fatalf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, tail(p.stderr))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, client+"/health", nil)
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
	return client
}
