package hub_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/cli/inprocess"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/encryption"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/limit"
)

var secretsGVR = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

const password = "hunter2-of-the-hub"

// encoded is how JSON has the password.
func encoded() string { return base64.StdEncoding.EncodeToString([]byte(password)) }

func (r *running) addSecret(name string, labels map[string]string) {
	r.t.Helper()
	r.create("s", secretsGVR, object("v1", "Secret", "default", name, labels, map[string]any{"data": map[string]any{"password": encoded()}}))
}

// TestSecretsAtRest checks that a hub with the default configuration stores Secrets only encrypted, and logs
// nothing of their content.
func TestSecretsAtRest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var output bytes.Buffer
	r := start(t, dir, func(c *hub.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&output, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	r.addSecret("one", map[string]string{"what": "app"})
	r.create("s", configMapsGVR, object("v1", "ConfigMap", "default", "plain", nil, map[string]any{"data": map[string]any{"k": "cGxhaW4-always-there"}}))
	secrets := r.space("s").Resource(secretsGVR).Namespace("default")
	got, err := secrets.Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got.SetAnnotations(map[string]string{"orrery.dev/x": "y"})
	if _, err := secrets.Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a := r.join("a")
	if f, _ := a.open(0, "").next(); f.Hello == nil || f.Hello.Count != 1 {
		t.Errorf("frame %+v", f)
	}
	have := holding{}
	a.walk(have)
	if len(have) != 1 {
		t.Errorf("the agent has %v", have)
	}
	// What an API server says of a refused object may quote it.
	a.report(wire.ReportLine{Key: "s/core/secrets/default/one", Report: &wire.Report{UID: "u", State: wire.Failed, Message: "refused: " + password}})
	// What is refused says nothing of it either, nor what explains and measures.
	got.Object["data"] = map[string]any{"password": password + "!"}
	if _, err := secrets.Update(t.Context(), got, metav1.UpdateOptions{}); err == nil || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), encoded()) {
		t.Errorf("refused: %v", err)
	}
	for _, path := range []string{"/metrics", "/ask/v1/spaces/s/why?object=core/secrets/default/one&location=a", "/ask/v1/spaces/s/status"} {
		resp, err := r.operator().Get(r.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || strings.Contains(string(body), encoded()) {
			t.Errorf("%s: %s: %s", path, resp.Status, body)
		}
	}
	r.stop()
	for _, text := range []string{password, encoded()} {
		if in := env.FilesWith(t, text, dir); len(in) > 0 {
			t.Errorf("%q is in %q", text, in)
		}
		if strings.Contains(output.String(), text) {
			t.Errorf("%q is in the log of the hub", text)
		}
	}
	if in := env.FilesWith(t, "cGxhaW4-always-there", dir); len(in) == 0 {
		t.Error("what is no secret is not found either")
	}
	if info, err := os.Stat(filepath.Join(dir, encryption.FileName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key: %v, %v", info, err)
	}

	key := filepath.Join(dir, encryption.FileName)
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	config := hub.DefaultConfig()
	config.DataDir, config.Listen, config.UnsafeNoFsync = dir, "127.0.0.1:0", true
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var w inprocess.World
	_, err = w.StartHub(ctx, "hub", config)
	if !errors.Is(err, etcd.ErrSealed) || !strings.Contains(err.Error(), "o/s/core/secrets/default/one") || !strings.Contains(err.Error(), key) {
		t.Errorf("a start without the key: %v", err)
	}
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir)
	if got, err := r.space("s").Resource(secretsGVR).Namespace("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil || got.GetAnnotations()["orrery.dev/x"] != "y" {
		t.Errorf("after a start with the key: %v, %v", got, err)
	}
}

// readMark are the frames up to the first mark.
func readMark(s *stream) (all []wire.Frame) {
	s.t.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended")
		}
		all = append(all, f)
		if f.Mark != nil {
			return all
		}
	}
}

// writeKeys makes a file of keys, the first of which is written with.
func writeKeys(t *testing.T, file string, names ...string) {
	t.Helper()
	var keys []string
	for _, name := range names {
		keys = append(keys, fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%032s", name)))))
	}
	text := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- {resources: [secrets], providers: [{secretbox: {keys: [%s]}}]}\n", strings.Join(keys, ", "))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRotation changes the key while the hub runs: all values are written again. Only watches of Secrets get
// events, as with any API server.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "keys.yaml")
	configure := func(c *hub.Config) { c.EncryptionConfig = file }
	writeKeys(t, file, "old")
	r := start(t, dir, configure)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	const secrets = 20
	for i := range secrets {
		r.addSecret(fmt.Sprint("secret-", i), map[string]string{"what": "app"})
	}
	a := r.join("a")
	report := wire.ReportLine{Key: "s/core/secrets/default/secret-0", Report: &wire.Report{UID: "u", State: wire.Failed, Reason: "Refused"}}
	a.report(report)
	session := a.open(0, "")
	if f, _ := session.next(); f.Hello == nil || f.Hello.Count != secrets {
		t.Fatalf("%+v", f)
	}
	watched, err := r.space("s").Resource(secretsGVR).Namespace("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	r.eventually(func() string { // the later writes are done
		p, l := r.placement(), r.location("a")
		connected := meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConnected)
		if p.Status.Assigned != secrets || !connected {
			return fmt.Sprintf("the Placement says %+v, the Location %+v", p.Status, l.Status.Conditions)
		}
		return ""
	})
	r.idle() // the Placement also counts the failed report
	quiet := r.quiet()

	for _, names := range [][]string{{"old", "new"}, {"new", "old"}} {
		before := r.Log.Reencryption().Progress()
		writeKeys(t, file, names...)
		r.eventually(func() string {
			if now := r.Log.Reencryption().Progress(); now.Running || now.Floor <= before.Floor && (names[0] == "new" || now.Floor == 0) {
				return fmt.Sprintf("keys %q: %+v", names, now)
			}
			return ""
		})
	}
	if done := r.Log.Reencryption().Progress(); done.Written != secrets+1 || done.Pending != 0 {
		t.Errorf("%+v, want %d values and one report", done, secrets)
	}
	seen := map[string]int{}
	for n := range 2 * secrets { // they were there, and were written again
		e := limit.Receive(t, watched.ResultChan(), fmt.Sprintf("an event after %d of %d", n, 2*secrets))
		u, _ := e.Object.(*unstructured.Unstructured)
		if data, _, _ := unstructured.NestedString(u.Object, "data", "password"); data != encoded() || n >= secrets && e.Type != watch.Modified {
			t.Errorf("%s %s: %q", e.Type, u.GetName(), data)
		}
		seen[u.GetName()]++
	}
	if len(seen) != secrets {
		t.Errorf("events of %v", seen)
	}
	for k, rev := range r.quiet() {
		if previous, ok := quiet[k]; !ok || previous != rev {
			t.Errorf("%s was written at revision %d, before at %d", k, rev, previous)
		}
	}
	const reported = "r/a/s/placed/core/secrets/default/secret-0"
	before := r.row(reported).ModRev
	a.report(report)
	if now := r.row(reported).ModRev; now != before {
		t.Errorf("an equal report was written again: it was at revision %d, is at %d", before, now)
	}
	r.addConfigMap("after", map[string]string{"what": "app"}, "1")
	frames := readMark(session)
	if i := slices.IndexFunc(frames, func(f wire.Frame) bool { return f.Put != nil && strings.HasSuffix(f.Put.Key, "/after") }); i != 0 || len(frames) != 2 {
		t.Errorf("frames to the agent: %+v", frames)
	}
	session.close()

	writeKeys(t, file, "new")
	r.stop()
	r = start(t, dir, configure)
	if list, err := r.space("s").Resource(secretsGVR).Namespace("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != secrets {
		t.Errorf("without the old key: %v, %v", list, err)
	}
}

// quiet are the revisions of all rows but Secrets and what is reported of them.
func (r *running) quiet() map[string]int64 {
	r.t.Helper()
	if err := r.WaitCommitted(limit.Context(r.t, "the table is current")); err != nil {
		r.t.Fatal(err)
	}
	all := map[string]int64{}
	r.Table.Snapshot().Ascend("", func(row *table.Row) bool {
		if resource, ok := key.SubjectOf(row.Key); !ok || resource != key.NewResource("", "secrets") {
			all[row.Key] = row.ModRev
		}
		return true
	})
	return all
}
