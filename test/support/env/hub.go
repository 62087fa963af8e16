package env

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/internal/cli/admin"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/test/support/ports"
)

// Hub is a hub process. Process.Kill and Process.Stop end it; it can then be
// started again.
type Hub struct {
	*Process
	// Dir is the data directory.
	Dir string
	// URL is the URL at which the hub listens.
	URL string
	// Kubeconfig is the operator's kubeconfig, which the hub writes.
	Kubeconfig string
	// Ready is the line that the hub printed when it was last ready.
	Ready string

	t    T
	args []string
}

// StartHub starts a hub with an empty data directory of its own and further flags, and waits until it
// prints that it is ready.
func StartHub(t T, args ...string) *Hub {
	t.Helper()
	return startHub(t, ports.Reserve(t), args...)
}

// StartHub is env.StartHub for a hub that the network can reach.
func (n *Network) StartHub(args ...string) *Hub {
	n.t.Helper()
	_, port := splitAddress(ports.Reserve(n.t))
	return startHub(n.t, n.Hub+":"+port, args...)
}

func startHub(t T, listen string, args ...string) *Hub {
	t.Helper()
	h := newHub(t, listen, args...)
	h.Start()
	return h
}

// sharedFiles are the files that all hubs on one etcd need.
var sharedFiles = []string{"ca.crt", "ca.key", "encryption.yaml"}

// StartSibling starts one more hub on the etcd of this one, with further flags. It copies the shared
// files: the certificate authority and the encryption keys.
func (h *Hub) StartSibling(args ...string) *Hub {
	h.t.Helper()
	other := newHub(h.t, ports.Reserve(h.t), args...)
	if err := os.Mkdir(other.Dir, 0o700); err != nil {
		h.t.Fatalf("start a sibling of a hub: %v", err)
	}
	for _, name := range sharedFiles {
		content, err := os.ReadFile(filepath.Join(h.Dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(other.Dir, name), content, 0o600)
		}
		if err != nil {
			h.t.Fatalf("start a sibling of a hub: %v", err)
		}
	}
	other.Start()
	return other
}

// newHub returns a hub that is not started.
func newHub(t T, listen string, args ...string) *Hub {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	return &Hub{
		Process:    newProcess(t, "hub", "orrery", dir),
		Dir:        data,
		URL:        "https://" + listen,
		Kubeconfig: filepath.Join(data, "admin.kubeconfig"),
		t:          t,
		args:       append([]string{"hub", "--data-dir", data, "--listen", listen}, args...),
	}
}

// Start starts the hub after Kill or Stop, with the same flags, and waits until it prints that it is
// ready.
func (h *Hub) Start() {
	h.t.Helper()
	before := h.lines()
	h.start(h.args...)
	h.Ready = h.waitLine(before)
}

// Flags adds flags for the next start. A later value of a flag overrides an earlier one.
func (h *Hub) Flags(args ...string) { h.args = append(h.args, args...) }

// Restart stops the hub cleanly and starts it again.
func (h *Hub) Restart() {
	h.t.Helper()
	h.Stop()
	h.Start()
}

// Admin returns the API of the hub for its operator.
func (h *Hub) Admin() admin.Hub {
	h.t.Helper()
	a, err := admin.Open(h.URL, h.Kubeconfig)
	if err != nil {
		h.t.Fatalf("%v", err)
	}
	return a
}

// Certificate returns a new certificate for 127.0.0.1 by the hub's authority, for a proxy or a fake hub:
// agents trust the authority of their hub.
func (h *Hub) Certificate() tls.Certificate {
	h.t.Helper()
	pair := h.pair()
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		h.t.Fatalf("make a certificate: %v", err)
	}
	return certificate
}

// StartTerminating starts a proxy in front of the hub by env.StartTerminating, with a certificate of the
// hub's authority.
func (h *Hub) StartTerminating() *Proxy {
	h.t.Helper()
	pair := h.pair()
	return StartTerminating(h.t, strings.TrimPrefix(h.URL, "https://"), pair.Cert, pair.Key)
}

func (h *Hub) pair() enroll.Pair {
	h.t.Helper()
	ca, err := enroll.LoadOrCreate(h.Dir, time.Now)
	if err != nil {
		h.t.Fatalf("read the hub's authority: %v", err)
	}
	pair, err := ca.Server([]string{"127.0.0.1"})
	if err != nil {
		h.t.Fatalf("make a certificate: %v", err)
	}
	return pair
}

// PathConfig returns the operator's configuration for a path of the hub, such as
// spaces/NAME or views/locations/NAME, without a client-side rate limit.
func (h *Hub) PathConfig(path string) *rest.Config {
	h.t.Helper()
	config, err := h.Admin().Config(path)
	if err != nil {
		h.t.Fatalf("%v", err)
	}
	return config
}

// PathKubeconfig writes the operator's kubeconfig for a path of the hub, such as
// spaces/NAME or views/locations/NAME, and returns its name.
func (h *Hub) PathKubeconfig(path string) string {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*h.Admin().Kubeconfig(path), file); err != nil {
		h.t.Fatalf("write a kubeconfig for %q: %v", path, err)
	}
	return file
}
