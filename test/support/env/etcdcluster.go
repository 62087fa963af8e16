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

// EtcdCluster is an etcd of several members, which clients reach over TLS and only with a
// certificate.
type EtcdCluster struct {
	Members []*EtcdMember
	// CA, Cert and Key are the files of the authority, and of a client's certificate.
	CA, Cert, Key string
}

// EtcdMember is one of its processes. Process.Kill and Process.Stop end it; Start starts it
// again.
type EtcdMember struct {
	*Process
	// URL is where clients reach it.
	URL string

	t       T
	metrics string
	args    []string
}

// StartEtcdCluster returns an empty etcd of so many members that is ready.
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

// Start starts the member after Kill or Stop, and waits until it serves with the others.
func (m *EtcdMember) Start() {
	m.t.Helper()
	m.start(m.args...)
	m.healthy()
}

// Begin starts the member after Kill or Stop and does not wait: without the others it can't
// serve.
func (m *EtcdMember) Begin() {
	m.t.Helper()
	m.start(m.args...)
}

// Leads says whether the member is the leader.
func (m *EtcdMember) Leads() bool {
	m.t.Helper()
	return m.says("/metrics", "\netcd_server_is_leader 1\n") == nil
}

func (m *EtcdMember) healthy() {
	m.t.Helper()
	Eventually(m.t, startTimeout, func() error { return m.says("/health", `"health":"true"`) })
}

// says fails unless a path answers with a text.
func (m *EtcdMember) says(path, text string) error {
	ctx, cancel := context.WithTimeout(m.t.Context(), lookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.metrics+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if !strings.Contains(string(said), text) {
		return fmt.Errorf("%s: %s does not say %q", m.name, path, text)
	}
	return nil
}

// Flags are those of a hub that uses the cluster, by URLs that may be others than the
// members' own; none: those.
func (c *EtcdCluster) Flags(urls ...string) []string {
	if len(urls) == 0 {
		for _, m := range c.Members {
			urls = append(urls, m.URL)
		}
	}
	return []string{"--etcd-servers", strings.Join(urls, ","), "--etcd-cafile", c.CA, "--etcd-certfile", c.Cert, "--etcd-keyfile", c.Key}
}
