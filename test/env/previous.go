package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// buildTimeout bounds how long hub and agent of another commit may take to build.
const buildTimeout = 10 * time.Minute

// building lets one test build at a time.
var building sync.Mutex

// BuildCommit builds orrery and orrery-agent as they were at a commit, given in full, unless
// that was done before, and returns the directory below .bin that has them, for Process.Use.
// A checkout without history that reaches back to it has those of the newest commit before its
// own, or of its own, which the log of the test says.
func BuildCommit(t T, commit string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	root, err := moduleRoot()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	commit = hadCommit(t, root, commit)
	built := filepath.Join(root, ".bin", "at-"+commit)
	if _, err := os.Stat(built); err == nil {
		return filepath.Base(built)
	}
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	run := func(dir string, env []string, name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
		}
		return nil
	}
	source, made := t.TempDir(), built+".new"
	archive := filepath.Join(source, "archive.tar")
	for _, step := range [][]string{
		{"git", "-C", root, "archive", "--output", archive, commit},
		{"tar", "-xf", archive},
		// As make static builds, so that what both have is built once.
		{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X orrery.dev/orrery/internal/version.stamped=at-" + commit[:12], "-o", made + "/", "./cmd/orrery", "./cmd/orrery-agent"},
	} {
		if err := run(source, []string{"CGO_ENABLED=0"}, step[0], step[1:]...); err != nil {
			t.Fatalf("build commit %s: %v", commit, err)
		}
	}
	if err := os.Rename(made, built); err != nil {
		t.Fatalf("build commit %s: %v", commit, err)
	}
	return filepath.Base(built)
}

// hadCommit is the commit, or the one to build in its place if the checkout does not have it.
func hadCommit(t T, root, commit string) string {
	t.Helper()
	var last error
	for _, name := range []string{commit, "HEAD~1", "HEAD"} {
		out, err := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "--verify", "--quiet", name+"^{commit}").Output()
		if err != nil {
			last = err
			continue
		}
		is := strings.TrimSpace(string(out))
		if is != commit {
			t.Logf("this checkout does not have commit %s: %s is built in its place", commit, is)
		}
		return is
	}
	t.Fatalf("find a commit whose hub and agent are to be built: %v", last)
	return ""
}
