package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/test/support/ports"
)

// EtcdCluster is an etcd of several members. Clients need TLS and a client certificate.
type EtcdCluster struct {
	Members []*EtcdMember
	// CA is the file of the certificate authority, and Cert and Key are those of a client certificate.
	CA, Cert, Key string
}

// EtcdMember is the process of a member. Process.Kill and Process.Stop end it; Start starts it again.
type EtcdMember struct {
	*Process
	// URL is the client URL.
	URL string

	t       T
	metrics string
	args    []string
}

// StartEtcdCluster starts an empty etcd with a number of members, and waits until it is ready.
func StartEtcdCluster(t T, members int) *EtcdCluster {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatalf("start etcd: %v", err)
		}
		return file
	}
	authority, err := enroll.LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	pair := func(name string, made enroll.Pair, err error) (cert, key string) {
		if err != nil {
			t.Fatalf("start etcd: %v", err)
		}
		return write(name+".crt", made.Cert), write(name+".key", made.Key)
	}
	c := &EtcdCluster{CA: filepath.Join(dir, "ca.crt")}
	made, err := authority.Client("orrery")
	c.Cert, c.Key = pair("client", made, err)
	made, err = authority.Server([]string{"127.0.0.1"})
	cert, key := pair("server", made, err)
	var peers []string
	for i := range members {
		m := &EtcdMember{t: t, URL: "https://" + ports.Reserve(t), metrics: "http://" + ports.Reserve(t)}
		name, peer := fmt.Sprintf("etcd-%d", i), "http://"+ports.Reserve(t)
		m.Process = newProcess(t, name, "etcd", dir)
		m.args = []string{
			"--name=" + name, "--data-dir=" + filepath.Join(dir, name), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + m.URL, "--advertise-client-urls=" + m.URL, "--listen-metrics-urls=" + m.metrics,
			"--cert-file=" + cert, "--key-file=" + key, "--client-cert-auth", "--trusted-ca-file=" + c.CA, "--enable-grpc-gateway=false",
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		}
		peers = append(peers, name+"="+peer)
		c.Members = append(c.Members, m)
	}
	for _, m := range c.Members {
		m.args = append(m.args, "--initial-cluster="+strings.Join(peers, ","))
		m.start(m.args...)
	}
	for _, m := range c.Members {
		m.healthy()
	}
	return c
}

// Start starts the member after Kill or Stop, and waits until it is healthy.
func (m *EtcdMember) Start() {
	m.t.Helper()
	m.start(m.args...)
	m.healthy()
}

// Begin starts the member after Kill or Stop without a wait: it cannot be healthy without a quorum.
func (m *EtcdMember) Begin() {
	m.t.Helper()
	m.start(m.args...)
}

// Leads reports whether the member is the leader.
func (m *EtcdMember) Leads() bool {
	m.t.Helper()
	return m.contains("/metrics", "\netcd_server_is_leader 1\n") == nil
}

func (m *EtcdMember) healthy() {
	m.t.Helper()
	Eventually(m.t, startTimeout, func() error { return m.contains("/health", `"health":"true"`) })
}

// contains returns an error unless the response of a path contains a text.
func (m *EtcdMember) contains(path, text string) error {
	ctx, cancel := context.WithTimeout(m.t.Context(), checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.metrics+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if !strings.Contains(string(body), text) {
		return fmt.Errorf("%s: %s does not contain %q", m.name, path, text)
	}
	return nil
}

// Flags returns the flags of a hub that uses the cluster at some URLs, or, without URLs, at those of the
// members.
func (c *EtcdCluster) Flags(urls ...string) []string {
	if len(urls) == 0 {
		for _, m := range c.Members {
			urls = append(urls, m.URL)
		}
	}
	return []string{"--etcd-servers", strings.Join(urls, ","), "--etcd-cafile", c.CA, "--etcd-certfile", c.Cert, "--etcd-keyfile", c.Key}
}
