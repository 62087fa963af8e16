package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProfiles checks that an agent serves its profiles on a socket in its data directory that
// only its own user can use.
func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	read := func(name string) (string, error) {
		var out bytes.Buffer
		err := printProfile(t.Context(), &out, dir, name, 1)
		return out.String(), err
	}
	if out, err := read("heap"); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("without an agent: %s %v", out, err)
	}
	left, err := listenPrivate(filepath.Join(dir, profileSocket)) // as a killed agent leaves it
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	stop := serveProfiles(dir, slog.New(slog.DiscardHandler))
	info, err := os.Stat(filepath.Join(dir, profileSocket))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info, err)
	}
	for _, name := range []string{"heap", "goroutine", "profile"} {
		out, err := read(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.HasPrefix(out, "\x1f\x8b") { // compressed, as go tool pprof reads it
			t.Errorf("%s: %.100q", name, out)
		}
	}
	if out, err := read("cmdline"); err == nil || !strings.Contains(err.Error(), "want one of") {
		t.Errorf("the command line: %s %v", out, err)
	}
	stop()
	if _, err := os.Stat(filepath.Join(dir, profileSocket)); !os.IsNotExist(err) {
		t.Errorf("a clean stop leaves the socket: %v", err)
	}
}
