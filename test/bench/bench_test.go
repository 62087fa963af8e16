package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain lets this binary be the bare client, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == bareCommand {
		os.Exit(bareMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// committed is the directory of the committed ranges and the reference result.
const committed = "../../bench"

// Everything can be measured; how fast it is, is not for a test to say.
func TestQuickRunIsComplete(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ranges.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"-quick", "-dir", dir}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	files, err := filepath.Glob(filepath.Join(dir, "results", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("results are in %q: %v", files, err)
	}
	for _, s := range complete(t, files[0]) {
		if !strings.Contains(out.String(), "\n"+s.what+"  ") {
			t.Errorf("the table lacks %q\n%s", s.what, out.String())
		}
	}
}

// complete checks that a result has all lines, and returns them.
func complete(t *testing.T, file string) []spec {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var run saved
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	for _, s := range specs() {
		if !slices.ContainsFunc(run.Rows, func(l savedLine) bool { return l.ID == s.id }) {
			t.Errorf("%s lacks %s", file, s.id)
		}
	}
	return specs()
}

// The ranges are about lines that there are, open towards the better, and the
// reference result lies within them.
func TestCommittedRanges(t *testing.T) {
	all, err := readRanges(committed)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs() {
		limit, ok := all[s.id]
		delete(all, s.id)
		if !ok || s.better == lower && (limit.Max == nil || limit.Min != nil) || s.better == higher && (limit.Min == nil || limit.Max != nil) {
			t.Errorf("the range of %s is %s", s.id, limit)
		}
	}
	for id := range all {
		t.Errorf("there is a range for %s, which is not measured", id)
	}
	complete(t, filepath.Join(committed, "results", "reference.json"))
}

func TestOnlyWhatIsWorseFails(t *testing.T) {
	worst := 2.0
	all := ranges{"sync.rate": {Min: &worst}, "edit.p50": {Max: &worst}}
	for _, c := range []struct {
		id    string
		value float64
		worse bool
	}{
		{"sync.rate", 1.9, true}, {"sync.rate", 2, false}, {"sync.rate", 9, false},
		{"edit.p50", 2.1, true}, {"edit.p50", 2, false}, {"edit.p50", 0, false},
		{"edit.p99", 1e9, false}, // has no range
	} {
		r := newReport(quickSize(), machine{})
		r.set(c.id, c.value, "")
		r.compare(all)
		if err := r.worse(); (err != nil) != c.worse {
			t.Errorf("%s of %g: %v", c.id, c.value, err)
		}
	}
}

func TestVerdict(t *testing.T) {
	up := spec{better: higher, bar: new(1.0), stretch: new(2.0)}
	down := spec{better: lower, bar: new(2.0), stretch: new(1.0)}
	for _, c := range []struct {
		spec  spec
		value float64
		want  string
	}{
		{up, 0.9, "missed"}, {up, 1, "met"}, {up, 2, "stretch"},
		{down, 2.1, "missed"}, {down, 2, "met"}, {down, 1, "stretch"},
		{spec{better: lower, bar: new(0.0)}, 0, "met"}, {spec{}, 7, "-"},
	} {
		if got := c.spec.verdict(c.value); got != c.want {
			t.Errorf("%g is %q, want %q", c.value, got, c.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(hundred, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := median([]float64{4, 1, 2, 9}); got != 3 {
		t.Errorf("the median is %g", got)
	}
	if got := median([]float64{9, 1, 2}); got != 2 {
		t.Errorf("the median is %g", got)
	}
}
