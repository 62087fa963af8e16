package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// source is a Go module that has manifests in it. They are fetched as modules are, and
// proven to be the same by their sum; nothing of their code is built.
type source struct{ module, sum string }

var (
	kyverno     = source{"github.com/kyverno/kyverno@v1.19.1", "h1:/MkgFii3/VlQfKR1JpC9tVwNNVNQTt2S4U6qCsafsTU="}
	kyvernoAPI  = source{"github.com/kyverno/api@v0.0.1-alpha.3.0.20260723090831-fb2785727f98", "h1:wGbyqQNc5wnHXq73aclvBje80lQvYDnqZCF967m+zEU="}
	certManager = source{"github.com/cert-manager/cert-manager@v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="}
)

// dir is where the module's files are.
func (s source) dir(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", s.module)
	cmd.Dir = t.TempDir() // outside of any module
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	if json.Unmarshal(out, &module) != nil || err != nil || module.Error != "" {
		t.Fatalf("download %s: %v: %s\n%s", s.module, err, module.Error, &stderr)
	}
	if module.Sum != s.sum {
		t.Fatalf("the sum of %s is %s, want %s", s.module, module.Sum, s.sum)
	}
	return module.Dir
}

// kyvernoChart is Kyverno's chart with the one dependency that is not in its module:
// the chart of its newer kinds, which is in the module of its API.
func kyvernoChart(t *testing.T) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "kyverno")
	copyDir(t, filepath.Join(kyverno.dir(t), "charts", "kyverno"), chart)
	api := filepath.Join(chart, "charts", "kyverno-api")
	copyDir(t, filepath.Join(kyvernoAPI.dir(t), "charts", "kyverno-api"), api)
	// Versions are set when charts are packed.
	edit(t, filepath.Join(api, "Chart.yaml"), "version: .*", "version: 0.0.1-alpha.4")
	// These two are off unless asked for, and Helm wants what it is not to use, too.
	edit(t, filepath.Join(chart, "Chart.yaml"), `(?s)  - name: openreports.*`, "")
	return chart
}

// certManagerChart is cert-manager's chart as its release tool packs it.
func certManagerChart(t *testing.T) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "cert-manager")
	copyDir(t, filepath.Join(certManager.dir(t), "deploy", "charts", "cert-manager"), chart)
	edit(t, filepath.Join(chart, "Chart.yaml"), "v0.0.0", "v1.21.2")
	return chart
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, file, pattern, replacement string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(pattern).ReplaceAll(text, []byte(replacement))
	if bytes.Equal(text, changed) {
		t.Fatalf("%s has no %s", file, pattern)
	}
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}
