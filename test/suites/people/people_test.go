// Package people shows how people and programs get in, through the real programs: tokens
// and certificates in kubeconfigs that orrery prints, sign-in at an OpenID issuer by an
// exec plugin, what becomes of these under an open kubectl, and the audit log of it.
package people

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/test/support/env"
)

// soon is how long revoking something may take to end what is open, on a busy machine.
const soon = env.Soon

// mint creates a kubeconfig for a space as a user, whose kubeconfig is as.
func mint(t *testing.T, as string, args ...string) (file, text string) {
	t.Helper()
	text = env.Orrery(t, as, append([]string{"space", "kubeconfig"}, args...)...)
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, text
}

// tokenOf is the ID of the token of a kubeconfig, as its first line says.
func tokenOf(t *testing.T, text string) string {
	t.Helper()
	first, _, _ := strings.Cut(text, "\n")
	_, id, ok := strings.Cut(first, "orrery token revoke ")
	if !ok {
		t.Fatalf("the first line does not say how to revoke the token: %s", first)
	}
	return id
}

// watching has kubectl watch ConfigMaps, once it shows one.
func watching(t *testing.T, kubeconfig, name string) *env.Process {
	t.Helper()
	p := env.StartKubectl(t, kubeconfig, "get", "configmaps", "--watch")
	env.Eventually(t, soon, func() error {
		if out := p.Stdout(); !strings.Contains(out, name) {
			return fmt.Errorf("kubectl shows %q", out)
		}
		return nil
	})
	return p
}

func ends(t *testing.T, p *env.Process) {
	t.Helper()
	if _, ended := p.Wait(soon); !ended {
		t.Error("kubectl goes on watching")
	}
}

// refused waits until a request of kubectl is rejected with a message. kubectl shows the message only
// if it does not have to discover kinds first.
func refused(t *testing.T, kubeconfig, message string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		_, err := env.TryKubectl(t, kubeconfig, "get", "--raw", "/version")
		if err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Errorf("want %q, got %w", message, err)
		}
		return nil
	})
}

// TestKubeconfigs: each has a credential of its own and nothing of the operator's, is good
// for its space, and ends when it is revoked, when it expires, or with its space.
func TestKubeconfigs(t *testing.T) {
	t.Parallel()
	hub, other := env.StartHub(t, "--unsafe-no-fsync"), env.StartHub(t, "--unsafe-no-fsync")
	for _, s := range []string{"shop", "bank"} {
		env.CreateSpace(t, hub.Kubeconfig, s)
	}
	env.CreateSpace(t, other.Kubeconfig, "shop")
	admin, text := mint(t, hub.Kubeconfig, "shop")
	certificate, text2 := mint(t, hub.Kubeconfig, "shop", "--role", "view", "--certificate")
	hasNothingOf(t, hub.Kubeconfig, text, text2)
	env.Kubectl(t, admin, "create", "configmap", "one")
	if out := env.Kubectl(t, certificate, "get", "configmaps"); !strings.Contains(out, "one") {
		t.Errorf("by a certificate: %s", out)
	}
	if err := env.KubectlFails(t, certificate, "create", "configmap", "two"); !strings.Contains(err, "Forbidden") && !strings.Contains(err, "forbidden") {
		t.Errorf("the role view writes: %s", err)
	}
	if err := env.KubectlFails(t, admin, "--server", hub.URL+"/spaces/bank", "get", "--raw", "/version"); !strings.Contains(err, `the credential is for space "shop" alone`) {
		t.Errorf("in another space: %s", err)
	}

	// An administrator of the space creates a token with fewer rights, and revokes it.
	view, text := mint(t, admin, "shop", "--role", "view", "--expires", "1d")
	watch, stays := watching(t, view, "one"), watching(t, admin, "one")
	env.Orrery(t, admin, "token", "revoke", tokenOf(t, text))
	ends(t, watch)
	refused(t, view, "You must be logged in to the server (the token is unknown to this hub: it was revoked")
	env.Kubectl(t, admin, "create", "configmap", "three")
	env.Eventually(t, soon, func() error {
		if out := stays.Stdout(); !strings.Contains(out, "three") {
			return fmt.Errorf("another token's watch shows %q", out)
		}
		return nil
	})

	foreign, _ := mint(t, other.Kubeconfig, "shop")
	if err := rewire(foreign, admin); err != nil {
		t.Fatal(err)
	}
	refused(t, foreign, "unknown to this hub")
	short, _ := mint(t, hub.Kubeconfig, "shop", "--expires", "3s")
	refused(t, short, "expired at")

	if output := hub.Stdout() + hub.Stderr(); strings.Contains(output, "orr_t_") || strings.Contains(output, "PRIVATE KEY") {
		t.Errorf("the output of the hub contains a credential: %s", output)
	}
	env.Orrery(t, hub.Kubeconfig, "space", "delete", "shop")
	env.CreateSpace(t, hub.Kubeconfig, "shop")
	ends(t, stays)
	for _, file := range []string{admin, certificate} {
		refused(t, file, "You must be logged in to the server (the ")
	}
}

// hasNothingOf fails if a part of the operator's credential is in a text.
func hasNothingOf(t *testing.T, kubeconfig string, texts ...string) {
	t.Helper()
	operator, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range operator.AuthInfos {
		if len(who.ClientKeyData) == 0 || len(who.ClientCertificateData) == 0 {
			t.Fatal("the operator has no certificate to be copied")
		}
		for _, secret := range [][]byte{who.ClientKeyData, who.ClientCertificateData} {
			for _, text := range texts {
				if bytes.Contains([]byte(text), secret) || strings.Contains(text, base64.StdEncoding.EncodeToString(secret)) {
					t.Error("the kubeconfig has a part of the operator's credential")
				}
			}
		}
	}
}

// rewire changes the server and authority of a kubeconfig to those of another hub.
func rewire(file, source string) error {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return err
	}
	other, err := clientcmd.LoadFromFile(source)
	if err != nil {
		return err
	}
	config.Clusters = other.Clusters
	return clientcmd.WriteToFile(*config, file)
}

// TestSignIn shows that a user can sign in at a stock OpenID issuer with a plugin of kubectl. The
// configuration of the hub maps the user's name, and rejects the user once it no longer has the
// issuer.
func TestSignIn(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	config := filepath.Join(t.TempDir(), "authentication.yaml")
	const none = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	write(t, config, fmt.Sprintf(`%sjwt:
- issuer: {url: %q, audiences: [orrery], certificateAuthority: %q}
  claimMappings:
    username: {claim: sub, prefix: "oidc:"}
    groups: {expression: 'claims.sub == "jane" ? ["developers"] : []'}
`, none, issuer.url, issuer.ca))
	hub := env.StartHub(t, "--unsafe-no-fsync", "--authentication-config", config)
	env.CreateSpace(t, hub.Kubeconfig, "shop")
	root, _ := mint(t, hub.Kubeconfig, "shop", "--role", "admin")
	env.KubectlIn(t, root, `{"apiVersion":"orrery.dev/v1alpha1","kind":"Grant","metadata":{"name":"developers"},
		"spec":{"subjects":[{"kind":"Group","name":"developers"}],"roles":[{"name":"edit"}]}}`, "apply", "-f", "-")

	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	plugin := filepath.Join(dir, "login")
	write(t, plugin, `#!/bin/sh
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$(cat "$1")"
`)
	if err := os.Chmod(plugin, 0o700); err != nil {
		t.Fatal(err)
	}
	user, text := mint(t, hub.Kubeconfig, "shop", "--exec-command", plugin, "--exec-arg", token)
	hasNothingOf(t, hub.Kubeconfig, text)
	if strings.Contains(text, "token: ") {
		t.Errorf("there is a credential in the kubeconfig: %s", text)
	}
	write(t, token, issuer.signIn(t, "jane"))
	env.Eventually(t, soon, func() error { // the hub asks the issuer for its keys
		_, err := env.TryKubectl(t, user, "create", "configmap", "one", "--dry-run=server")
		return err
	})
	env.Kubectl(t, user, "create", "configmap", "one")
	if out := env.Kubectl(t, user, "auth", "whoami", "-o", "json"); !strings.Contains(out, `"oidc:jane"`) || !strings.Contains(out, `"developers"`) {
		t.Errorf("signed in as %s", out)
	}
	watch := watching(t, user, "one")
	write(t, token, issuer.signIn(t, "joe"))
	if err := env.KubectlFails(t, user, "get", "--raw", "/api/v1/configmaps"); !strings.Contains(err, `User "oidc:joe" cannot list`) {
		t.Errorf("somebody without a Grant: %s", err)
	}
	write(t, config, none)
	ends(t, watch)
	refused(t, user, "You must be logged in to the server (Unauthorized)")
}

// TestAudited: the hub's flags write an audit log of what kubectl does.
func TestAudited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	write(t, policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n")
	hub := env.StartHub(t, "--unsafe-no-fsync", "--audit-policy-file", policy, "--audit-log-path", log)
	env.CreateSpace(t, hub.Kubeconfig, "shop")
	file, text := mint(t, hub.Kubeconfig, "shop")
	env.Kubectl(t, file, "create", "configmap", "one", "--from-literal=said=loud")
	env.Eventually(t, soon, func() error {
		content, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(content) {
			var e struct {
				Annotations   map[string]string
				User          struct{ Username string }
				ObjectRef     struct{ Name, Resource string }
				RequestObject struct{ Data map[string]string }
			}
			if err := json.Unmarshal(line, &e); err != nil {
				continue // it is being written
			}
			if e.ObjectRef.Name == "one" && e.Annotations["orrery.dev/space"] == "shop" && e.RequestObject.Data["said"] == "loud" &&
				e.User.Username == "orrery:token:"+tokenOf(t, text) {
				return nil
			}
		}
		return fmt.Errorf("the create is not in the log:\n%s", content)
	})
	if content, err := os.ReadFile(log); err != nil || bytes.Contains(content, []byte("orr_t_")) {
		t.Errorf("a token is in the log, or %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// users of the issuer, as its file has them.
func users(names ...string) string {
	all := map[string]any{}
	for _, name := range names {
		all[name] = map[string]any{"ID": name, "Username": name, "Password": password}
	}
	text, _ := json.Marshal(all) //nolint:errchkjson // of strings
	return string(text)
}

const password = "of-a-test"
