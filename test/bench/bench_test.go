package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
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

// The test shows that everything can be measured; it does not judge the values.
func TestQuickRunIsComplete(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ranges.json"), []byte(`{"ranges": {}}`), 0o600); err != nil {
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
	curvesOf(t, files[0])
	for _, s := range specs() {
		if _, ok := valuesOf(t, files[0])[s.id]; !ok {
			t.Errorf("%s lacks %s", files[0], s.id)
		}
		if !strings.Contains(out.String(), "\n"+s.what+"  ") {
			t.Errorf("the table lacks %q\n%s", s.what, out.String())
		}
	}
}

// valuesOf are the values of a result, by the ID of the line.
func valuesOf(t *testing.T, file string) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var run saved
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, line := range run.Rows {
		values[line.ID] = line.Value
	}
	return values
}

// Ranges are for lines that exist, are open towards the better and have a reason; the
// reference results have all lines and lie within the ranges.
func TestCommittedRanges(t *testing.T) {
	file, err := readRanges(committed)
	if err != nil {
		t.Fatal(err)
	}
	all, small := file.Ranges, file.Ranges.small()
	full := references(t, all, "reference*.json")
	little := references(t, small, "small*.json")
	for _, s := range specs() {
		if !full[s.id] && !little[s.id] {
			t.Errorf("no reference result has %s", s.id)
		}
		limit, ok := all[s.id]
		delete(all, s.id)
		if !ok || !open(s, limit) || limit.Small != nil && !open(s, *limit.Small) {
			t.Errorf("the range of %s is %s", s.id, limit)
		}
		if file.Reasons[limit.Why] == "" {
			t.Errorf("the range of %s has no reason", s.id)
		}
	}
	for id := range all {
		t.Errorf("there is a range for %s, which is not measured", id)
	}
}

// references checks that committed results lie within ranges, and returns which lines
// they have.
func references(t *testing.T, all ranges, pattern string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(committed, "results", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no results %s: %v", pattern, err)
	}
	measured := map[string]bool{}
	for _, file := range files {
		for id, value := range valuesOf(t, file) {
			measured[id] = true
			if limit := all[id]; !limit.contains(value) {
				t.Errorf("%s: %s is %g, outside its range %s", file, id, value, limit)
			}
		}
	}
	return measured
}

// open reports whether a range has a limit for worse values, and none for better ones.
func open(s spec, l limits) bool {
	if s.better == higher {
		return l.Min != nil && l.Max == nil
	}
	return l.Max != nil && l.Min == nil
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

func TestResult(t *testing.T) {
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
		if got := c.spec.result(c.value); got != c.want {
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

// A small run is compared with the ranges of small runs only.
func TestSmallRanges(t *testing.T) {
	large, little := 2.0, 1.0
	all := ranges{"edit.p50": {Max: &large}, "fleet.edit.p50": {Max: &large, Small: &limits{Max: &little}}}
	small := all.small()
	if got := small["fleet.edit.p50"]; len(small) != 1 || got.Max != &little {
		t.Errorf("the small ranges of %v are %v", all, small)
	}
}
