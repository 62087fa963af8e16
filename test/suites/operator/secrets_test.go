package operator

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// keys makes an EncryptionConfiguration of two providers.
func keys(t *testing.T, file, first, second string) {
	t.Helper()
	provider := map[string]string{
		"old": "secretbox: {keys: [{name: old, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}",
		"new": "aesgcm: {keys: [{name: new, secret: ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=}]}",
	}
	text := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - %s
  - %s
`, provider[first], provider[second])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsOfAWholeRun takes Secrets from a space to a cluster, with the log in an etcd of
// its own whose key changes meanwhile, and looks for them in all that hub, etcd and agent
// have written anywhere: files, logs and answers.
func TestSecretsOfAWholeRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, storeKey := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "store.key")
	keys(t, file, "old", "new")
	if err := os.WriteFile(storeKey, []byte("a key from outside of the volume\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := env.StartEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.URL}, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	flags := []string{"--etcd-servers", etcd.URL, "--encryption-provider-config", file, "--log-level", "debug"}
	s := newSite(t, flags...)
	s.Agent.Stop()
	s.Agent.Start("--store-key-file", storeKey, "--log-level", "debug")

	passwords := []string{"hunter2-the-first-of-all", "hunter2-the-second-of-all"}
	put := func(password string) {
		s.apply(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: db, namespace: %s, labels: {what: app}}, stringData: {password: %q}}`, namespace, password))
		s.Eventually("the Secret is there", func() error {
			u, err := s.Client.Resource(secrets).Namespace(namespace).Get(t.Context(), "db", metav1.GetOptions{})
			if err == nil && !strings.Contains(fmt.Sprint(u.Object["data"]), base64.StdEncoding.EncodeToString([]byte(password))) {
				err = fmt.Errorf("it is %v", u.Object["metadata"])
			}
			return err
		})
	}
	put(passwords[0])
	// kept waits until the log keeps all Secrets in a form.
	kept := func(prefix string) {
		s.Eventually("kept as "+prefix, func() error {
			r, err := client.Get(t.Context(), "/orrery/", clientv3.WithPrefix())
			if err != nil {
				return err
			}
			for _, kv := range r.Kvs {
				if strings.Contains(string(kv.Key), "/core/secrets/") && !bytes.HasPrefix(kv.Value, []byte(prefix)) {
					return fmt.Errorf("%s is kept as %.30q", kv.Key, kv.Value)
				}
			}
			return nil
		})
	}
	kept("k8s:enc:secretbox:v1:old:")
	before := s.Agent.Stderr()
	keys(t, file, "new", "old")
	kept("k8s:enc:aesgcm:v1:new:")
	if output := strings.TrimPrefix(s.Agent.Stderr(), before); strings.Contains(output, "db") {
		t.Errorf("the log of the agent mentions the Secret: %s", output)
	}
	put(passwords[1])

	out := env.Orrery(t, s.file, "why", "secrets/db", "-n", namespace, "--location", siteName) +
		env.Orrery(t, s.file, "status") + env.Orrery(t, s.Root, "location", "describe", siteName) +
		env.Command{Binary: "orrery-agent", Args: []string{"status", "--data-dir", s.Agent.Dir}}.Run(t)
	if !strings.Contains(out, "encrypted") || strings.Contains(out, "not encrypted") {
		t.Errorf("the store is not said to be encrypted: %s", out)
	}
	// Another hub with the same keys reads the same log.
	other := env.StartHub(t, flags...)
	u, err := world.Dynamic(t, other.PathConfig("spaces/"+spaceName)).Resource(secrets).Namespace(namespace).Get(t.Context(), "db", metav1.GetOptions{})
	if err != nil || !strings.Contains(fmt.Sprint(u.Object["data"]), base64.StdEncoding.EncodeToString([]byte(passwords[1]))) {
		t.Errorf("at another hub: %v", err)
	}
	other.Stop()
	s.Agent.Restart() // with nothing but its data directory
	s.Agent.Stop()
	s.Hub.Stop()
	etcd.Kill()
	for _, password := range passwords {
		for _, text := range []string{password, base64.StdEncoding.EncodeToString([]byte(password))} {
			if in := env.FilesWith(t, text, filepath.Dir(s.Hub.Dir), filepath.Dir(other.Dir), filepath.Dir(s.Agent.Dir), etcd.Dir()); len(in) > 0 {
				t.Errorf("%q is in %q", text, in)
			}
			if strings.Contains(out, text) {
				t.Errorf("%q is in what is answered: %s", text, out)
			}
		}
	}
	if in := env.FilesWith(t, siteName, s.Hub.Dir, etcd.Dir()); len(in) == 0 {
		t.Error("what is no secret is not found either")
	}
}
