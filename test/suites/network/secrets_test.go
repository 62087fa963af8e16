package network

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/agent/credential"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// storeKey encrypts the store of the agent.
const storeKey = "a key from outside of the volume"

// secret is a value that only some files may contain.
type secret struct {
	what  string
	texts []string
	// in are the names of the files that contain it by design.
	in []string
}

// run collects all secrets of a test run, and all outputs.
type run struct {
	*balanced
	t       *testing.T
	secrets []secret
	// outputs are the outputs of commands, and responses.
	outputs bytes.Buffer
	// given is a directory with files of an operator or a site; logs is one with logs.
	given, logs string
	// agent is the data directory of the agent.
	agent string
}

func (r *run) keep(what string, texts []string, in ...string) {
	r.secrets = append(r.secrets, secret{what, texts, in})
}

// keyTexts returns the encodings in which a private key could leak.
func keyTexts(t *testing.T, der []byte) []string {
	t.Helper()
	k, err := x509.ParseECPrivateKey(der)
	if err != nil {
		t.Fatal(err)
	}
	scalar, err := k.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(strings.SplitN(string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), "\n", 2)[1], "\n")
	return []string{string(scalar), hex.EncodeToString(scalar), base64.StdEncoding.EncodeToString(der), line}
}

// keyOf returns the encodings of a private key in PEM.
func keyOf(t *testing.T, text []byte) []string {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("the text contains no PEM block")
	}
	return append(keyTexts(t, block.Bytes), base64.StdEncoding.EncodeToString(text))
}

// file writes a file of a site, and returns its path.
func (r *run) file(name, content string) string {
	r.t.Helper()
	path := filepath.Join(r.given, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *run) read(path string) []byte {
	r.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// keepJoin adds a join token, which is an argument of the command at a site, to the secrets.
func (r *run) keepJoin(token string, in ...string) {
	r.t.Helper()
	join, err := wire.ParseJoin(token)
	if err != nil {
		r.t.Fatal(err)
	}
	_, random, _ := strings.Cut(join.Token, ".")
	r.keep("a join token", []string{token, random}, in...)
}

// keepAgentKey adds the present key of the agent, which the key of its store encrypts, to the
// secrets, and returns its certificate.
func (r *run) keepAgentKey() string {
	r.t.Helper()
	keeper, err := credential.Open(r.agent, []byte(storeKey))
	if err != nil {
		r.t.Fatal(err)
	}
	now := keeper.Current().TLS()
	der, err := x509.MarshalECPrivateKey(now.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		r.t.Fatal(err)
	}
	r.keep("a key of the agent", keyTexts(r.t, der))
	return string(now.Certificate[0])
}

// renews waits for a number of renewals of the credential of the agent.
func (r *run) renews(times int) {
	r.t.Helper()
	for range times {
		before := r.keepAgentKey()
		env.Eventually(r.t, world.Soon, func() error {
			if r.keepAgentKey() == before {
				return errors.New("the agent has not renewed its credential")
			}
			return nil
		})
	}
}

// run runs a command, which may fail, and records its output.
func (r *run) run(c env.Command) {
	r.t.Helper()
	out, err := c.Try(r.t)
	fmt.Fprintln(&r.outputs, out, err)
}

// keepHub adds the secrets of the hub.
func (r *run) keepHub() {
	r.t.Helper()
	r.keep("the authority's key", keyOf(r.t, r.read(filepath.Join(r.Hub.Dir, "ca.key"))), "ca.key")
	var keys struct {
		Resources []struct {
			Providers []struct {
				Secretbox struct{ Keys []struct{ Secret string } }
			}
		}
	}
	if err := yaml.Unmarshal(r.read(filepath.Join(r.Hub.Dir, "encryption.yaml")), &keys); err != nil {
		r.t.Fatal(err)
	}
	encoded := keys.Resources[0].Providers[0].Secretbox.Keys[0].Secret
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) == 0 {
		r.t.Fatal(err)
	}
	r.keep("the log's key", []string{encoded, string(raw)}, "encryption.yaml")
	config, err := clientcmd.LoadFromFile(r.Hub.Kubeconfig)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		r.keep("the operator's key", keyOf(r.t, user.ClientKeyData), "admin.kubeconfig")
	}
}

// asPrinted runs the command that `orrery location token` prints in a shell at the site, until the
// agent is ready.
func (r *run) asPrinted(more string) {
	r.t.Helper()
	var command string
	for line := range strings.SplitSeq(env.Orrery(r.t, r.Root, "location", "token", "edge"), "\n") {
		if strings.Contains(line, "orrery-agent --join") {
			command = strings.Replace(strings.TrimSpace(line), "FILE", r.cluster.AgentKubeconfig, 1)
		}
	}
	for word := range strings.FieldsSeq(command) {
		if _, err := wire.ParseJoin(word); err == nil {
			r.keepJoin(word, "setup.json")
		}
	}
	out, err := os.Create(filepath.Join(r.logs, "shell.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer out.Close()
	shell := exec.Command("bash", "--norc")
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(env.Binary(r.t, "orrery-agent"))+":"+os.Getenv("PATH"))
	shell.Stdin, shell.Stdout, shell.Stderr = strings.NewReader(command+more+"\n"), out, out
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := shell.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }) // it has ended, unless the test failed
	env.Eventually(r.t, world.Soon, func() error {
		if output := string(r.read(out.Name())); !strings.Contains(output, "orrery-agent ready") {
			return fmt.Errorf("the agent is not ready: %s", output)
		}
		return nil
	})
	if err := syscall.Kill(-shell.Process.Pid, syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	_ = shell.Wait() // terminated
}

// arguments collects those of all processes of this machine until stop is called, which
// returns them.
func arguments(t *testing.T) (stop func() string) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := map[string]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			files, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				panic(err) // of the pattern
			}
			for _, f := range files {
				if b, err := os.ReadFile(f); err == nil { // else it has ended
					seen[string(b)] = true
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	end := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(end)
	return func() string {
		end()
		var all strings.Builder
		for one := range seen {
			all.WriteString(strings.ReplaceAll(one, "\x00", " ") + "\n")
		}
		return all.String()
	}
}

// people connects as users with a token, a certificate, a revoked token and a guessed one.
func (r *run) people() {
	r.t.Helper()
	tokenOf := func(file string) (*rest.Config, string) {
		r.t.Helper()
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			r.t.Fatal(err)
		}
		return config, config.BearerToken
	}
	kubeconfig := r.kubeconfig("terminating")
	_, token := tokenOf(kubeconfig)
	id, random, _ := strings.Cut(token, ".")
	r.keep("a person's token", []string{token, random})
	env.Kubectl(r.t, kubeconfig, "get", "configmaps,secrets")
	certificate := r.kubeconfig("passing-by-sni", "--certificate", "--expires", "1h", "--role", "view")
	config, _ := tokenOf(certificate)
	r.keep("a person's key", keyOf(r.t, config.KeyData))
	env.Kubectl(r.t, certificate, "get", "configmaps")
	guessed := r.file("guessed.kubeconfig", strings.ReplaceAll(string(r.read(kubeconfig)), random, "GUESSEDGUESSEDGUESSED"))
	r.keep("a guess", []string{"GUESSEDGUESSED"})
	r.run(env.Command{Binary: "kubectl", Kubeconfig: guessed, Args: []string{"get", "configmaps", "-v6"}})
	r.run(env.Command{Binary: "orrery", Kubeconfig: r.Root, Args: []string{"token", "list", "-o", "yaml"}})
	env.Orrery(r.t, r.Root, "token", "revoke", strings.TrimPrefix(id, "orr_t_"))
	r.run(env.Command{Binary: "kubectl", Kubeconfig: kubeconfig, Args: []string{"get", "configmaps"}})
	r.run(env.Command{Binary: "orrery", Kubeconfig: kubeconfig, Args: []string{"status"}})
}

// readAll records the output of all commands and APIs that describe the hub and the agent.
func (r *run) readAll() {
	r.t.Helper()
	for _, args := range [][]string{
		{"location", "describe", "edge"}, {"location", "describe", "edge", "-o", "yaml"}, {"location", "list"},
		{"hub", "backup", filepath.Join(r.logs, "backup.db")},
	} {
		r.run(env.Command{Binary: "orrery", Kubeconfig: r.Root, Args: args})
	}
	r.run(env.Command{Binary: "orrery", Kubeconfig: r.space, Args: []string{"status", "-o", "json"}})
	r.run(env.Command{Binary: "orrery", Kubeconfig: r.space, Args: []string{"why", "secrets/db", "--location", "edge", "-o", "json"}})
	for _, output := range []string{"text", "json"} {
		r.run(env.Command{Binary: "orrery-agent", Args: []string{"status", "--data-dir", r.agent, "-o", output}})
	}
	client, err := rest.HTTPClientFor(r.Hub.PathConfig("spaces/root"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, path := range []string{"/metrics", "/ask/v1/spaces/shop/status", "/spaces/*/api/v1/configmaps"} {
		resp, err := client.Get(r.Hub.URL + path)
		if err != nil {
			r.t.Fatal(err)
		}
		_, err = io.Copy(&r.outputs, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			r.t.Errorf("%s: %s, %v", path, resp.Status, err)
		}
	}
}

// TestCredentialsOfAWholeRun joins an agent with the printed command, through a proxy with a password
// and load balancers, by certificate and by bearer token. The agent renews its credential and is
// revoked; users get and lose credentials; a Secret is placed. All secrets of the run occur only in
// the files made for them: in no log or other file of hub, agent and etcd, and not in the audit log,
// a backup, a response or the arguments of a process.
func TestCredentialsOfAWholeRun(t *testing.T) {
	t.Parallel()
	stop := arguments(t)
	r := &run{t: t, given: t.TempDir(), logs: t.TempDir()}
	policy := r.file("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n")
	etcd := env.StartEtcd(t)
	r.balanced = behind(t, ways[:2], "--etcd-servers", etcd.URL, "--log-level", "debug", "--agent-certificate-lifetime", "10s",
		"--audit-policy-file", policy, "--audit-log-path", filepath.Join(r.logs, "audit.log"))
	r.site.t = t
	r.keepHub()
	const password, treasure = "pr0xys-s3cret", "hunter2-the-one-and-only"
	r.keep("the proxy's password", []string{password, base64.StdEncoding.EncodeToString([]byte("site:" + password))})
	r.keep("the store's key", []string{storeKey})
	r.keep("a Secret", []string{treasure, base64.StdEncoding.EncodeToString([]byte(treasure))})
	r.keep("an agent's bearer", []string{"orr_b_"})
	r.keep("a header", []string{"Bearer orr_", "Basic "})
	squid := env.StartAsking(t, "127.0.0.1", "site", password)
	proxy := r.file("proxy", fmt.Sprintf("http://site:%s@%s\n", password, squid.Address))

	a := env.NewAgent(t, "edge")
	r.agent = a.Dir
	r.asPrinted(fmt.Sprintf(" --data-dir %s --log-level debug --proxy-file %s --store-key-file %s", a.Dir, proxy, r.file("store.key", storeKey+"\n")))
	a.Start("--log-level", "debug")
	r.site.site.Agent = a
	r.reaches(a, r.urls["passing-by-sni"])
	r.renews(2)
	r.prefer("terminating")
	r.reaches(a, r.urls["terminating"])
	r.renews(2)
	env.KubectlIn(t, r.space, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: db, labels: {app: shop}}, stringData: {password: %q}}`, treasure), "apply", "--server-side", "-f", "-")
	env.Eventually(t, world.Soon, func() error {
		_, err := r.site.site.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default").Get(t.Context(), "db", metav1.GetOptions{})
		return err
	})
	r.people()
	r.readAll()
	// The hub rejects used, replaced and revoked credentials with an explanation.
	token := strings.TrimSpace(env.Orrery(t, r.Root, "location", "token", "edge", "--token-only"))
	r.keepJoin(token, "setup.json")
	env.Orrery(t, r.Root, "location", "revoke", "edge")
	r.run(env.Command{Binary: "orrery-agent", Args: []string{"--join-file", r.file("join", token), "--data-dir", filepath.Join(r.logs, "other"), "--kubeconfig", r.cluster.AgentKubeconfig, "--log-level", "debug"}})
	env.Eventually(t, world.Soon, func() error {
		r.keepAgentKey()
		if !strings.Contains(a.Stderr(), "was revoked") {
			return errors.New("the agent does not log that it was revoked")
		}
		return nil
	})
	r.readAll()
	r.keepAgentKey()
	a.Stop()
	r.Hub.Stop()
	etcd.Kill()
	r.search(stop(), filepath.Dir(r.Hub.Dir), etcd.Dir(), filepath.Dir(etcd.Dir()), filepath.Dir(a.Dir), r.logs)
}

// search reports each secret in the arguments of processes, outputs and files that should not contain it.
func (r *run) search(arguments string, dirs ...string) {
	r.t.Helper()
	for what, text := range map[string]string{"the arguments of a process": arguments, "an output": r.outputs.String()} {
		for _, s := range r.foundIn("", []byte(text)) {
			r.t.Errorf("%s is in %s", s, what)
		}
	}
	searched, edges := map[string]bool{}, 0
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			for _, what := range r.foundIn(filepath.Base(path), content) {
				r.t.Errorf("%s is in %s", what, path)
			}
			searched[filepath.Base(path)] = true
			edges += bytes.Count(content, []byte("edge"))
			return err
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	// Without these files, the search would prove nothing.
	for _, file := range []string{"hub.log", "audit.log", "backup.db", "agent-edge.log", "ca.crt", "db", "shell.log"} {
		if !searched[file] {
			r.t.Errorf("the search did not read %s", file)
		}
	}
	if !strings.Contains(arguments, r.agent) || !strings.Contains(r.outputs.String(), "edge") || edges < 100 || len(r.secrets) < 16 {
		r.t.Errorf("the search does not work: it has %d secrets, and found the public name of the location %d times", len(r.secrets), edges)
	}
}

// foundIn returns the secrets that a file of this name contains and should not contain.
func (r *run) foundIn(name string, content []byte) (all []string) {
	for _, s := range r.secrets {
		in := slices.ContainsFunc(s.texts, func(text string) bool { return bytes.Contains(content, []byte(text)) })
		if in && !slices.Contains(s.in, name) {
			all = append(all, s.what)
		}
	}
	return slices.Compact(all)
}
