package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/limit"
)

// TestOnce runs the demo with real hubs and agents; the demo checks itself.
func TestOnce(t *testing.T) {
	var out bytes.Buffer
	t.Chdir(t.TempDir())
	const dir = "data"
	full, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), Config{Locations: 3, Once: true, DataDir: dir, Program: "orrery", Out: &out})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("%v\n%s\n%s", err, out.String(), log)
	}
	for _, want := range []string{
		"Simulated clusters: north, south, east.",
		"$ orrery space create shop",
		"deployment.apps/web   3/3",
		"✓ all 8 steps came true",
		"export KUBECONFIG=" + filepath.Join(full, "kubeconfig"), // for any directory
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the story lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("the story is coloured without a terminal")
	}
	if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); err != nil {
		t.Errorf("the data directory that was asked for is gone: %v", err)
	}
}

// TestInterrupted: a demo that is interrupted at any time ends soon and leaves nothing behind.
func TestInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilWritten{text: "Place it by label", then: cancel}
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Config{Locations: 2, Once: true, Program: "orrery", Out: out}) }()
	err := limit.Receive(t, ended, "the interrupted story ends")
	if err == nil {
		t.Error("an interrupted story was reported as told")
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLeftRunning: after the last step everything runs until the context ends.
func TestLeftRunning(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilWritten{text: "Everything keeps running", then: cancel}
	if err := Run(ctx, Config{Locations: 2, Program: "orrery", Out: out}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
		kept, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*", "log"))
		for _, name := range kept {
			log, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", name, log)
		}
	}
	if want := "✓ all 9 steps came true"; !strings.Contains(out.String(), want) {
		t.Errorf("the story lacks %q:\n%s", want, out.String())
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// untilWritten calls then after text has been written.
type untilWritten struct {
	bytes.Buffer
	text string
	then func()
}

func (w *untilWritten) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.then()
	}
	return w.Buffer.Write(p)
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Locations: 3}, ""},
		{Config{Locations: 1}, "want 2 to 20"},
		{Config{Locations: 21}, "want 2 to 20"},
		{Config{Locations: 2, Kubeconfigs: []string{"a", "b", "c"}}, "3 kubeconfigs for 2 locations"},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("Validate of %d locations = %v, want %q", c.config.Locations, err, c.want)
		}
	}
}
