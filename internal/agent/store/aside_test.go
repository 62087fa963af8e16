package store

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestStoresSetAside: of the stores that were set aside the newest stay, and no more.
func TestStoresSetAside(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{File + ".corrupt-20200101T000000.000", File + ".corrupt-20210101T000000.000", File + ".corrupt-20220101T000000.000", File, "another"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no store"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(dir, "paris", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	aside, err := filepath.Glob(filepath.Join(dir, File+".corrupt-*"))
	if err != nil || len(aside) != keptAside || !slices.Contains(aside, filepath.Join(dir, File+".corrupt-20220101T000000.000")) {
		t.Errorf("set aside are %q, %v", aside, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "another")); err != nil {
		t.Error(err)
	}
}
