// Package scenario runs tests that are written as readable files: archives of steps, of which some are
// expectations. It must not depend on the tested code.
package scenario

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the results of the scenarios into their files")

// Step executes a step: a file of an archive, whose name has the words of the step. If expects is true,
// the result must equal the data of the file.
type Step func(words []string, data []byte) (result string, expects bool)

// Run runs each of testdata/*.txtar as a test of its own, with the Step that begin returns. The comment
// of a file must describe what the scenario shows. With the flag -update, Run writes the results of
// expectations into the files.
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
		t.Error("the scenario has no comment that describes it")
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
