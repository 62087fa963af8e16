package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A repository is a small copy of what the gates read.
type repository struct {
	t    *testing.T
	root string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.write("go.mod", "module example.org/m\n\ngo 1.26\n")
	r.write("views/views.go", "package views\n")
	r.write("apis/apis.go", "package apis\n")
	r.write("cmd/m/main.go", "package main\n\nfunc main() {}\n")
	r.write("internal/a/a.go", "package a\n\n// Size reports the size.\nfunc Size() int { return 1 }\n")
	r.write(wordsFile, "phrase\tsays that\treports that\nidentifier\tof\towner\nterm\tcensus\tscan\n")
	r.write(architecturePage, "# Architecture\n\nThe hub stores objects.\n")
	return r
}

func (r *repository) write(path, text string) {
	r.t.Helper()
	file := filepath.Join(r.root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// allowances returns the text of the allowances.
func (r *repository) allowances() string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.root, allowancesFile))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// run runs the gates and returns their output.
func (r *repository) run(o options) (passed bool, out, problems string) {
	r.t.Helper()
	o.root = r.root
	var output output
	passed, err := run(o, &output)
	if err != nil {
		r.t.Fatal(err)
	}
	return passed, output.totals.String(), output.problems.String()
}

// fails runs the gates, which must fail with some texts.
func (r *repository) fails(want ...string) {
	r.t.Helper()
	passed, _, problems := r.run(options{})
	if passed {
		r.t.Errorf("passed, want %q", want)
	}
	for _, text := range want {
		if !strings.Contains(problems, text) {
			r.t.Errorf("problems:\n%swant %q", problems, text)
		}
	}
}

// passes runs the gates, which must pass.
func (r *repository) passes() {
	r.t.Helper()
	if passed, _, problems := r.run(options{}); !passed {
		r.t.Errorf("failed:\n%s", problems)
	}
}

func TestRunPasses(t *testing.T) {
	passed, out, problems := newRepository(t).run(options{})
	if !passed || problems != "" {
		t.Fatalf("failed:\n%s", problems)
	}
	for _, g := range gates() {
		if !strings.Contains(out, g.name+": ") {
			t.Errorf("no totals of gate %s in:\n%s", g.name, out)
		}
	}
}

func TestRunFindsEachKind(t *testing.T) {
	r := newRepository(t)
	r.write("internal/a/b.go", "package a\n\nfunc (t T) b() { t.a() }\n"+methods(25))
	r.write("internal/a/c.go", "package a\n\n// T says that it is.\ntype T int\n\nfunc (t T) a() { t.b() }\n"+strings.Repeat("\n", 500))
	r.write(architecturePage, "# A\n\n"+strings.Repeat("word ", 31)+".\n\n"+strings.Repeat("Short. ", 3000))
	r.write("docs/design/a.md", "# What is here\n")
	r.fails(
		"methods: internal/a.T is above its allowance: 27 instead of 25 methods",
		"internal/a/b.go:3: 26 methods: b, m0",
		"mutual: internal/a is above its allowance: 1 instead of 0",
		"internal/a/c.go:6: uses b of b.go",
		"lines: internal/a/c.go is above its allowance: 525 instead of 500 lines",
		"words: internal/a is above its allowance: 1 instead of 0 findings",
		`internal/a/c.go:3: "says that"; instead: reports that`,
		"sentences: ARCHITECTURE.md is above its allowance: 1 instead of 0",
		"ARCHITECTURE.md:3: 31 words: word",
		"size: ARCHITECTURE.md is above its allowance: 21 instead of 15 KB",
		`docs/design/a.md:1: title "What is here" begins with "what"`,
	)
}

// methods returns the source of some methods of the type T.
func methods(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "func (T) m%d() {}\n", i)
	}
	return text.String()
}

func TestAllowancesOnlyShrink(t *testing.T) {
	r := newRepository(t)
	three := "package a\n\n// A says that it is.\n// It says that twice, and says that again.\nvar A int\n"
	two := "package a\n\n// A says that it is.\n// It says that twice.\nvar A int\n"
	r.write("internal/a/b.go", three)
	r.fails("3 instead of 0 findings")
	if passed, _, problems := r.run(options{init: true}); !passed {
		t.Fatalf("failed after -init:\n%s", problems)
	}
	if want := allowancesHead + "words\tinternal/a\t3\n"; r.allowances() != want {
		t.Fatalf("after -init: %q, want %q", r.allowances(), want)
	}
	r.passes()

	r.write("internal/a/b.go", two)
	r.fails("internal/a is below its row: 2 instead of 3 findings", lowerCommand)
	if passed, out, problems := r.run(options{lower: true}); !passed || !strings.Contains(out, "1 rows, 1 before") {
		t.Errorf("after -lower: %s%s", out, problems)
	}
	r.passes()

	r.write("internal/a/b.go", three)
	r.fails("internal/a is above its allowance: 3 instead of 2 findings")
	if passed, _, _ := r.run(options{lower: true}); passed {
		t.Error("-lower raised a row")
	}

	r.write("internal/a/b.go", "package a\n")
	r.fails("internal/a meets the goal and needs no row")
	r.run(options{lower: true})
	if got := r.allowances(); got != allowancesHead {
		t.Errorf("after the last -lower: %q", got)
	}
}

func TestInitIsRefusedWithRows(t *testing.T) {
	r := newRepository(t)
	r.write(allowancesFile, "words\tinternal/a\t3\n")
	if _, err := run(options{root: r.root, init: true}, &output{}); err == nil {
		t.Error("no error")
	}
}

func TestSourceThatDoesNotCompile(t *testing.T) {
	r := newRepository(t)
	r.write(allowancesFile, "methods\tinternal/a.T\t30\n")
	r.write("internal/a/b.go", "package a\n\nvar a = missing\n")
	r.fails("methods: not measured: ", "internal/a/b.go:3:9: undefined: missing")
	if _, err := run(options{root: r.root, lower: true}, &output{}); err == nil {
		t.Error("-lower wrote rows without figures")
	}
	if got := r.allowances(); got != "methods\tinternal/a.T\t30\n" {
		t.Errorf("-lower wrote %q", got)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	r := newRepository(t)
	r.write("internal/a/b.go", "package a\n\n// A "+strings.Repeat("says that ", 23)+"\nvar A int\n")
	r.fails("and 3 more: go run -C tools ./gates -list words internal/a")
	_, out, _ := r.run(options{list: "words", below: "internal/"})
	if got := strings.Count(out, "instead: reports that"); got != 23 {
		t.Errorf("-list prints %d findings, want 23:\n%s", got, out)
	}
	if _, out, _ := r.run(options{list: "words", below: "cmd"}); out != "" {
		t.Errorf("-list of another directory: %s", out)
	}
	if err := list(newTree(r.root), "beauty", "", &bytes.Buffer{}); err == nil {
		t.Error("-list of an unknown gate: no error")
	}
}
