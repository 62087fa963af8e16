package operator

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
)

// TestVersions checks that binaries print the version from which they were built, that a hub has it
// in its metrics, its log and the response to a request for its version, and that a build can set it.
func TestVersions(t *testing.T) {
	t.Parallel()
	built := strings.TrimPrefix(versionOf(t, env.Binary(t, "orrery")), "orrery version ")
	if !regexp.MustCompile(`^(v\d|[0-9a-f]{7})`).MatchString(built) {
		t.Errorf("orrery is version %q", built)
	}
	if agent := versionOf(t, env.Binary(t, "orrery-agent")); agent != "orrery-agent version "+built {
		t.Errorf("orrery is version %q, %q", built, agent)
	}
	hub := env.StartHub(t)
	metrics := env.Kubectl(t, hub.Kubeconfig, "--server="+hub.URL, "get", "--raw", "/metrics")
	if !strings.Contains(metrics, "orrery_build_info{") || !strings.Contains(metrics, `version="`+built+`"`) {
		t.Error("the hub's metrics have another version")
	}
	if answer := env.Kubectl(t, hub.Kubeconfig, "--server="+hub.URL, "get", "--raw", "/version"); !strings.Contains(answer, `"orrery": "`+built+`"`) || strings.Count(answer, built) != 1 {
		t.Errorf("the versions of the API and of the hub are %s", answer)
	}

	stamped := filepath.Join(t.TempDir(), "orrery-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X orrery.dev/orrery/internal/lib/process.stamped=v7.8.9", "-o", stamped, "../../../cmd/orrery-agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if version := versionOf(t, stamped); version != "orrery-agent version v7.8.9" {
		t.Errorf("a build that is told its version is %q", version)
	}
}

func versionOf(t *testing.T, binary string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", binary, err)
	}
	return strings.TrimSpace(string(out))
}
