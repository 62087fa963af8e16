package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/protocol/wire"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := New("v1")
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // an agent that starts ends at once
	err := c.ExecuteContext(ctx)
	return out.String(), err
}

const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"k","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"u","user":{"token":"t"}}],
"contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}]}`

// ca is a self-signed certificate without a private key.
const ca = `-----BEGIN CERTIFICATE-----
MIIBcDCCARagAwIBAgIUYp0TNT+EyJOx1kJYbgsEhqRmEiQwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwHhcNMjUwMTAxMDAwMDAwWhcNMzUwMTAxMDAwMDAwWjAN
-----END CERTIFICATE-----
`

func TestFirstStartNeedsAToken(t *testing.T) {
	_, err := execute(t, "--data-dir", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "--join") {
		t.Errorf("got %v", err)
	}
}

func TestSetupIsKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	join := wire.Join{Hub: "https://hub", CA: ca, Location: "paris", Token: "hush"}
	first, _, err := loadSetup(runFlags{join: join.Encode(), kubeconfig: file, dataDir: filepath.Join(dir, "data")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := first.save(data); err != nil {
		t.Fatal(err)
	}
	later, before, err := loadSetup(runFlags{dataDir: data}, nil)
	if err != nil || later != first || before != first {
		t.Errorf("later %v, first %v: %v", later, first, err)
	}
	if info, err := os.Stat(filepath.Join(data, setupFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the setup has mode %v: %v", info.Mode(), err)
	}
	target, err := later.target()
	if err != nil || target.Host != "https://127.0.0.1:1" {
		t.Errorf("target %v: %v", target, err)
	}
}

// TestJoinIsRead shows that the token can come from where no other user of the machine
// sees it.
func TestJoinIsRead(t *testing.T) {
	join := wire.Join{Hub: "https://hub", CA: ca, Location: "paris", Token: "hush"}
	for _, end := range []string{"", "\n", "\r\n"} {
		data := filepath.Join(t.TempDir(), "data")
		s, _, err := loadSetup(runFlags{join: "-", dataDir: data}, strings.NewReader(join.Encode()+end))
		if err != nil || s.Join != join {
			t.Errorf("from standard input, %q: %+v, %v", end, s, err)
		}
		file := filepath.Join(t.TempDir(), "join")
		if err := os.WriteFile(file, []byte(join.Encode()+end), 0o600); err != nil {
			t.Fatal(err)
		}
		s, _, err = loadSetup(runFlags{joinFile: file, dataDir: data}, nil)
		if err != nil || s.Join != join {
			t.Errorf("from a file, %q: %+v, %v", end, s, err)
		}
	}
	for _, bad := range []struct {
		runFlags
		stdin, want string
	}{
		{runFlags{join: "-"}, "", "standard input: the input is empty"},
		{runFlags{join: "-"}, "garbage", "join token"},
		{runFlags{join: "-", joinFile: "x"}, join.Encode(), "give one of them"},
		{runFlags{joinFile: "/does/not/exist"}, "", "--join-file"},
	} {
		bad.dataDir = t.TempDir()
		if _, _, err := loadSetup(bad.runFlags, strings.NewReader(bad.stdin)); err == nil || !strings.Contains(err.Error(), bad.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %v, want %q", bad.runFlags, err, bad.want)
		}
	}
	data := t.TempDir()
	if err := (setup{Join: join}).save(data); err != nil {
		t.Fatal(err)
	}
	if s, _, err := loadSetup(runFlags{joinFile: "/does/not/exist", dataDir: data}, nil); err != nil || s.Join != join {
		t.Errorf("a file that was cleared away after it was used: %+v, %v", s, err)
	}
}

// TestJoinFromStandardInput shows that the command reads it there, and keeps it from what
// it prints.
func TestJoinFromStandardInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	join := wire.Join{Hub: "https://127.0.0.1:1", CA: ca, Location: "paris", Token: "hush"}
	var out bytes.Buffer
	c := New("v1")
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetIn(strings.NewReader(join.Encode() + "\n"))
	c.SetArgs([]string{"--join", "-", "--kubeconfig", file, "--data-dir", filepath.Join(dir, "data")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.ExecuteContext(ctx)
	if strings.Contains(out.String(), "hush") || err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "--join")) {
		t.Fatalf("%v\n%s", err, &out)
	}
}

func TestBadArguments(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"--join", "garbage"},
		{"--join", wire.Join{Hub: "https://h", CA: "no PEM", Location: "paris", Token: "hush"}.Encode(), "--kubeconfig", "/does/not/exist"},
		{"--join", wire.Join{Hub: "https://h", CA: "no PEM", Location: "Not A Name", Token: "hush"}.Encode()},
		{"--log-level", "loud"},
		{"status", "--output", "xml"},
		{"surplus"},
	} {
		out, err := execute(t, append(args, "--data-dir", dir)...)
		if err == nil {
			t.Errorf("%q was accepted", args)
		} else if strings.Contains(out+err.Error(), "hush") {
			t.Errorf("%q shows the secret: %s %v", args, out, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("bad arguments left %v: %v", entries, err)
	}
}

func TestStatusOfAKilledAgent(t *testing.T) {
	dir := t.TempDir()
	s := agent.Status{Location: "paris", PID: 1 << 30, Running: true, Connected: true, Proven: true, Desired: 3, States: map[wire.State]int{wire.Applied: 2, wire.Failed: 1}}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "status.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "status", "--data-dir", dir)
	for _, want := range []string{"paris", "not running", "not connected", "3 desired", "Failed"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%q is not in %q: %v", want, out, err)
		}
	}
}

// TestShards: an agent is of the shard that was said last, and of that of its join token.
func TestShards(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	join := wire.Join{Hub: "https://hub", CA: ca, Location: "paris", Token: "hush", Shard: 2}.Encode()
	for _, wrong := range []string{"1/2", "3/3", "2", "2/1", "2/33", "x"} {
		if out, err := execute(t, "--join", join, "--kubeconfig", file, "--data-dir", data, "--shards", wrong); err == nil || !strings.Contains(err.Error(), "shard") {
			t.Errorf("--shards %s: %s %v", wrong, out, err)
		}
	}
	first, _, err := loadSetup(runFlags{join: join, kubeconfig: file, dataDir: data, shards: "2/3", leaseNamespace: "edge"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.save(data); err != nil {
		t.Fatal(err)
	}
	later, _, err := loadSetup(runFlags{dataDir: data}, nil)
	if shard, wrong := later.shard(); err != nil || wrong != nil || shard.String() != "2/3" || later.LeaseNamespace != "edge" {
		t.Errorf("later %s: %v %v", shard, err, wrong)
	}
	whole, _, err := loadSetup(runFlags{dataDir: data, shards: "1/1"}, nil)
	if shard, wrong := whole.shard(); err != nil || wrong != nil || !shard.Whole() {
		t.Errorf("%s: %v %v", shard, err, wrong)
	}
}

func TestRBAC(t *testing.T) {
	all, err := execute(t, "rbac")
	if err != nil || strings.Count(all, "---\n") != 6 || !strings.Contains(all, "- '*'") {
		t.Errorf("%s: %v", all, err)
	}
	some, err := execute(t, "rbac", "configmaps", "deployments.apps", "--namespace", "edge")
	if err != nil || strings.Contains(some, "- '*'") || !strings.Contains(some, "- deployments") || !strings.Contains(some, "namespace: edge") {
		t.Errorf("%s: %v", some, err)
	}
}

// TestStoreKey shows which files are keys, and that their path is kept.
func TestStoreKey(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	file := func(in, name, content string) string {
		path := filepath.Join(in, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	for _, text := range []string{key, key + "\n", key + "\r\n"} {
		if got, err := readStoreKey(file(dir, "key", text), data); err != nil || string(got) != key {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	inside := file(data, "key", key)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{filepath.Join(dir, "none"), file(dir, "short", "hush-hush"), file(dir, "empty", ""), inside, link} {
		if got, err := readStoreKey(bad, data); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %q, %v", bad, got, err)
		}
	}
	join := wire.Join{Hub: "https://hub", CA: ca, Location: "paris", Token: "hush"}
	t.Chdir(dir)
	first, _, err := loadSetup(runFlags{join: join.Encode(), storeKey: "key", dataDir: data}, nil)
	if err != nil || first.StoreKeyFile != filepath.Join(dir, "key") {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := first.save(data); err != nil {
		t.Fatal(err)
	}
	if later, _, err := loadSetup(runFlags{dataDir: data}, nil); err != nil || later != first {
		t.Errorf("later %v, first %v: %v", later, first, err)
	}
}
