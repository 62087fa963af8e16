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

// storeKey encrypts what the agent keeps.
const storeKey = "a key from outside of the volume"

// secret is what nobody is to find but in some files.
type secret struct {
	what  string
	texts []string
	// in are the names of files that have it by what they are for.
	in []string
}

// run is all that is secret in a run, and all that was said in it.
type run struct {
	*balanced
	t       *testing.T
	secrets []secret
	// said are outputs of commands, and answers.
	said bytes.Buffer
	// given is a directory with what an operator or a site brings, and logs one with logs.
	given, logs string
	// agent is the agent's data directory.
	agent string
}

func (r *run) keep(what string, texts []string, in ...string) {
	r.secrets = append(r.secrets, secret{what, texts, in})
}

// keyTexts are the forms in which a private key may be found.
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

// keyOf is a private key as PEM.
func keyOf(t *testing.T, text []byte) []string {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("there is no key")
	}
	return append(keyTexts(t, block.Bytes), base64.StdEncoding.EncodeToString(text))
}

// file writes what a site brings.
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

// keepJoin keeps a join token, which the command that is to be run at a site has.
func (r *run) keepJoin(token string, in ...string) {
	r.t.Helper()
	join, err := wire.ParseJoin(token)
	if err != nil {
		r.t.Fatal(err)
	}
	_, random, _ := strings.Cut(join.Token, ".")
	r.keep("a join token", []string{token, random}, in...)
}

// keepAgentKey keeps the key that the agent has now, which its store's key encrypts, and
// returns its certificate.
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

// renews waits until the agent has another credential, by so many renewals.
func (r *run) renews(times int) {
	r.t.Helper()
	for range times {
		before := r.keepAgentKey()
		env.Eventually(r.t, world.Soon, func() error {
			if r.keepAgentKey() == before {
				return errors.New("the credential is as it was")
			}
			return nil
		})
	}
}

// says runs a command, which may fail, and keeps what it says.
func (r *run) says(c env.Command) {
	r.t.Helper()
	out, err := c.Try(r.t)
	fmt.Fprintln(&r.said, out, err)
}

// keepHub keeps what is secret at the hub.
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
	of := keys.Resources[0].Providers[0].Secretbox.Keys[0].Secret
	raw, err := base64.StdEncoding.DecodeString(of)
	if err != nil || len(raw) == 0 {
		r.t.Fatal(err)
	}
	r.keep("the log's key", []string{of, string(raw)}, "encryption.yaml")
	config, err := clientcmd.LoadFromFile(r.Hub.Kubeconfig)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		r.keep("the operator's key", keyOf(r.t, user.ClientKeyData), "admin.kubeconfig")
	}
}

// asPrinted runs at the site what `orrery location token` prints, in a shell, until the
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
		if said := string(r.read(out.Name())); !strings.Contains(said, "orrery-agent ready") {
			return fmt.Errorf("the agent is not ready: %s", said)
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

// people have a token, a certificate, one that was revoked, and one that never was.
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
	by := r.kubeconfig("terminating")
	_, token := tokenOf(by)
	id, random, _ := strings.Cut(token, ".")
	r.keep("a person's token", []string{token, random})
	env.Kubectl(r.t, by, "get", "configmaps,secrets")
	certificate := r.kubeconfig("passing-by-sni", "--certificate", "--expires", "1h", "--role", "view")
	config, _ := tokenOf(certificate)
	r.keep("a person's key", keyOf(r.t, config.KeyData))
	env.Kubectl(r.t, certificate, "get", "configmaps")
	guessed := r.file("guessed.kubeconfig", strings.ReplaceAll(string(r.read(by)), random, "GUESSEDGUESSEDGUESSED"))
	r.keep("a guess", []string{"GUESSEDGUESSED"})
	r.says(env.Command{Binary: "kubectl", Kubeconfig: guessed, Args: []string{"get", "configmaps", "-v6"}})
	r.says(env.Command{Binary: "orrery", Kubeconfig: r.Root, Args: []string{"token", "list", "-o", "yaml"}})
	env.Orrery(r.t, r.Root, "token", "revoke", strings.TrimPrefix(id, "orr_t_"))
	r.says(env.Command{Binary: "kubectl", Kubeconfig: by, Args: []string{"get", "configmaps"}})
	r.says(env.Command{Binary: "orrery", Kubeconfig: by, Args: []string{"status"}})
}

// ask asks for all that the hub and the agent say of themselves.
func (r *run) ask() {
	r.t.Helper()
	for _, args := range [][]string{
		{"location", "describe", "edge"}, {"location", "describe", "edge", "-o", "yaml"}, {"location", "list"},
		{"hub", "backup", filepath.Join(r.logs, "backup.db")},
	} {
		r.says(env.Command{Binary: "orrery", Kubeconfig: r.Root, Args: args})
	}
	r.says(env.Command{Binary: "orrery", Kubeconfig: r.space, Args: []string{"status", "-o", "json"}})
	r.says(env.Command{Binary: "orrery", Kubeconfig: r.space, Args: []string{"why", "secrets/db", "--location", "edge", "-o", "json"}})
	for _, output := range []string{"text", "json"} {
		r.says(env.Command{Binary: "orrery-agent", Args: []string{"status", "--data-dir", r.agent, "-o", output}})
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
		_, err = io.Copy(&r.said, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			r.t.Errorf("%s: %s, %v", path, resp.Status, err)
		}
	}
}

// TestCredentialsOfAWholeRun lets an agent join by the command that is printed, through a
// proxy that wants a password and balancers, by certificate and by bearer, renew and be
// refused, people come and go, and a Secret travel; all that is secret in it is found
// nowhere but in the files that are there for it: in no log or other file of hub, agent and
// etcd, nor the audit log, a backup, an answer, or the arguments of any process.
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
	r.ask()
	// What was used, what has been replaced, and what is revoked is refused in words.
	token := strings.TrimSpace(env.Orrery(t, r.Root, "location", "token", "edge", "--token-only"))
	r.keepJoin(token, "setup.json")
	env.Orrery(t, r.Root, "location", "revoke", "edge")
	r.says(env.Command{Binary: "orrery-agent", Args: []string{"--join-file", r.file("join", token), "--data-dir", filepath.Join(r.logs, "other"), "--kubeconfig", r.cluster.AgentKubeconfig, "--log-level", "debug"}})
	env.Eventually(t, world.Soon, func() error {
		r.keepAgentKey()
		if !strings.Contains(a.Stderr(), "was revoked") {
			return errors.New("the agent does not say that it is revoked")
		}
		return nil
	})
	r.ask()
	r.keepAgentKey()
	a.Stop()
	r.Hub.Stop()
	etcd.Kill()
	r.search(stop(), filepath.Dir(r.Hub.Dir), etcd.Dir(), filepath.Dir(etcd.Dir()), filepath.Dir(a.Dir), r.logs)
}

// search looks for all that is secret.
func (r *run) search(arguments string, dirs ...string) {
	r.t.Helper()
	for what, said := range map[string]string{"the arguments of a process": arguments, "what is answered": r.said.String()} {
		for _, s := range r.foundIn("", []byte(said)) {
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
	// Else the search finds nothing.
	for _, file := range []string{"hub.log", "audit.log", "backup.db", "agent-edge.log", "ca.crt", "db", "shell.log"} {
		if !searched[file] {
			r.t.Errorf("%s is not searched", file)
		}
	}
	if !strings.Contains(arguments, r.agent) || !strings.Contains(r.said.String(), "edge") || edges < 100 || len(r.secrets) < 16 {
		r.t.Errorf("what is no secret is not found either, among %d secrets: %d times", len(r.secrets), edges)
	}
}

// foundIn is what of all that is secret is in a file of some name, and should not be.
func (r *run) foundIn(name string, content []byte) (all []string) {
	for _, s := range r.secrets {
		in := slices.ContainsFunc(s.texts, func(text string) bool { return bytes.Contains(content, []byte(text)) })
		if in && !slices.Contains(s.in, name) {
			all = append(all, s.what)
		}
	}
	return slices.Compact(all)
}
