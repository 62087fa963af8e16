package env

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"orrery.dev/orrery/test/support/ports"
)

// Proxy is a proxy between an agent and its hub. It runs until the test ends.
type Proxy struct {
	*Process
	// Address is the HOST:PORT at which it listens.
	Address string

	args []string
}

// StartPassing starts HAProxy, which forwards TCP connections to target, HOST:PORT.
func StartPassing(t T, target string) *Proxy {
	t.Helper()
	listen := ports.Reserve(t)
	return startHAProxy(t, listen, fmt.Sprintf(`
  mode tcp
listen hub
  bind %s
  server hub %s
`, listen, target))
}

// StartTerminating starts HAProxy, which terminates TLS with a certificate and its key, and forwards
// requests to target, HOST:PORT. It uses HTTP/1.1 on both sides.
func StartTerminating(t T, target string, cert, key []byte) *Proxy {
	t.Helper()
	listen, file := ports.Reserve(t), filepath.Join(t.TempDir(), "haproxy.pem")
	if err := os.WriteFile(file, slices.Concat(cert, key), 0o600); err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	return startHAProxy(t, listen, fmt.Sprintf(`
  mode http
listen hub
  bind %s ssl crt %s alpn http/1.1
  server hub %s ssl verify none alpn http/1.1
`, listen, file, target))
}

// StartBalancer starts HAProxy with a configuration, which must listen at an address. The default of its
// timeouts is a minute.
func StartBalancer(t T, listen, config string) *Proxy {
	t.Helper()
	return startHAProxy(t, listen, "\n"+config)
}

// StartAsking starts Squid as a forward proxy that requires the name and password of a user.
func StartAsking(t T, host, user, password string) *Proxy {
	t.Helper()
	// Squid runs the helper as another user, which cannot read the test's files.
	dir, err := os.MkdirTemp("", "orrery-squid-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	helper := filepath.Join(dir, "knows")
	if err == nil {
		script := fmt.Sprintf("while read -r given; do [ \"$given\" = %q ] && echo OK || echo ERR; done\n", user+" "+password)
		err = os.WriteFile(helper, []byte(script), 0o644)
	}
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	return startSquid(t, host, fmt.Sprintf(`
auth_param basic program /bin/sh %s
auth_param basic children 2
auth_param basic realm site
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
`, helper))
}

func startHAProxy(t T, listen, config string) *Proxy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	config = "defaults\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m" + config
	return startProxyServer(t, listen, "haproxy", file, config, "-db", "-f", file)
}

// StartForwarding starts Squid as a forward proxy without authentication, at an address of this machine.
func StartForwarding(t T, host string) *Proxy {
	t.Helper()
	return startSquid(t, host, "http_access allow all\n")
}

func startSquid(t T, host, access string) *Proxy {
	t.Helper()
	_, port := splitAddress(ports.Reserve(t))
	listen, file := net.JoinHostPort(host, port), filepath.Join(t.TempDir(), "squid.conf")
	// Squid runs as another user, which cannot write the test's files. When it is killed, it leaves
	// files of shared memory with its name.
	name := "orrery" + port
	shared, err := filepath.Glob("/dev/shm/" + name + "-*")
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	for _, file := range shared {
		if err := os.Remove(file); err != nil {
			t.Fatalf("start a proxy: %v", err)
		}
	}
	p := startProxyServer(t, listen, "squid", file, fmt.Sprintf(`
http_port %s
%s
access_log none
cache_log /dev/null
cache deny all
coredump_dir /
pid_filename none
netdb_filename none
pinger_enable off
shutdown_lifetime 1 second
`, listen, access), "-N", "-d1", "-n", name, "-f", file)
	t.Cleanup(p.Stop)
	return p
}

// startProxyServer writes a configuration file, and starts an installed program with it.
func startProxyServer(t T, listen, program, file, config string, args ...string) *Proxy {
	t.Helper()
	path := installed(t, program)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	p := &Proxy{Process: processOf(t, program, path, filepath.Dir(file)), Address: listen, args: args}
	p.start(args...)
	Eventually(t, startTimeout, func() error {
		if !p.Running() {
			t.Fatalf("%s ended: %s\n%s%s", program, p.cmd.ProcessState, tail(p.stderr), tail(p.stdout))
		}
		conn, err := net.Dial("tcp", listen)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return p
}

// Again starts the proxy after Kill or Stop.
func (p *Proxy) Again() {
	p.t.Helper()
	p.start(p.args...)
}

// installed returns the path of a program of a Debian package.
func installed(t T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		path, err = exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	if err != nil {
		t.Fatalf("%s is needed, which make peers installs: %v", name, err)
	}
	return path
}
