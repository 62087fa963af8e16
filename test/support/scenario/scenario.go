// Package scenario runs tests that are told in files which people read: archives of steps, of
// which some are expectations. It must know nothing of what is tested.
package scenario

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what the scenarios give into their files")

// Step does a step: a file of an archive, whose name says in words what it is. If it is an
// expectation, what the step gives is to be the file's data.
type Step func(words []string, data []byte) (gives string, expects bool)

// Run runs each of testdata/*.txtar as a test of its own, by what begin gives for it. Before
// its first step a file says what it shows. With the flag -update what the steps give is
// written into the files.
func Run(t *testing.T, begin func(t *testing.T) Step) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scenarios: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { run(t, file, begin(t)) })
	}
}

func run(t *testing.T, file string, step Step) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(strings.TrimSpace(string(archive.Comment))) == 0 {
		t.Error("the scenario does not say what it shows")
	}
	for i, f := range archive.Files {
		got, expects := step(strings.Fields(f.Name), f.Data)
		switch {
		case !expects:
		case *update:
			archive.Files[i].Data = []byte(got)
		case got != string(f.Data):
			t.Errorf("step %d, %s:\n got\n%swant\n%s", i+1, f.Name, got, f.Data)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
