package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// drawings is the directory of the committed drawings, and drawingsPage shows them.
const (
	drawings     = "../../docs/scaling"
	drawingsPage = "../../docs/scaling.md"
)

// The committed drawings are those of the committed results: go run ./test/bench -draw docs/scaling.
func TestDrawings(t *testing.T) {
	to := t.TempDir()
	if err := drawCommitted(committed, to); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(drawingsPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range charts() {
		want, err := os.ReadFile(filepath.Join(to, c.file+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(drawings, c.file+".svg")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the committed results give: draw it again (%v)", c.file, err)
		}
		if n := bytes.Count(want, []byte(`<path class="c"`)); n != 2*len(c.curves) { // of each its line, and that of the legend
			t.Errorf("%s: %d lines of %d curves: no committed result has the others", c.file, n-len(c.curves), len(c.curves))
		}
		if !strings.Contains(string(page), "](scaling/"+c.file+".svg)") {
			t.Errorf("%s does not show %s", drawingsPage, c.file)
		}
	}
	files, err := filepath.Glob(filepath.Join(drawings, "*"))
	if err != nil || len(files) != len(charts()) {
		t.Errorf("there are %d files for %d drawings: %v", len(files), len(charts()), err)
	}
}

// curvesOf fails unless a result has each curve, at a quarter, a half and the whole or at
// three rates.
func curvesOf(t *testing.T, file string) {
	t.Helper()
	runs, err := readRuns(file)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs in %q: %v", len(runs), file, err)
	}
	const sizes = 3
	for _, c := range charts() {
		for _, drawnCurve := range c.curves {
			if points := runs[0].Curves[drawnCurve.name]; len(points) < sizes {
				t.Errorf("the curve %s has %v", drawnCurve.name, points)
			}
		}
	}
}

// All points are inside of a drawing, a larger value is above a smaller one, and the ticks
// are numbers that are read easily.
func TestScale(t *testing.T) {
	for name, c := range map[string]struct {
		chart  chart
		points []point
		ticks  string
	}{
		"linear":      {chart{}, []point{{0, 21}, {250, 101}, {1000, 397}}, "0 100 200 300 400"},
		"small":       {chart{}, []point{{1, 0.011}, {2, 0.013}}, "0 0.004 0.008 0.012 0.016"},
		"logarithmic": {chart{logarithmic: true}, []point{{300, 2.2}, {500, 90}, {1000, 41000}}, "1 10 100 1000 10000 100000"},
		"empty":       {chart{}, nil, "0 0.25 0.5 0.75 1"},
		"zero":        {chart{logarithmic: true}, []point{{1, 0}}, "0 0.25 0.5 0.75 1"},
	} {
		c.chart.curves = []curve{{"c", ""}}
		s := c.chart.scale(map[string]drawn{"c": {points: c.points}})
		var ticks []string
		for _, v := range s.ticks() {
			ticks = append(ticks, short(v))
		}
		if got := strings.Join(ticks, " "); got != c.ticks {
			t.Errorf("%s: ticks %s, want %s", name, got, c.ticks)
		}
		last := point{plotLeft - 1, plotTop + plotHeight + 1}
		for _, p := range c.points {
			drawnAt := s.position(p)
			if drawnAt.X <= last.X || drawnAt.Y >= last.Y || drawnAt.X > plotLeft+plotWidth || drawnAt.Y < plotTop-1e-9 {
				t.Errorf("%s: %v is drawn at %v, the one before at %v", name, p, drawnAt, last)
			}
			last = drawnAt
		}
	}
}
