package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// measured returns a measurement of the gate methods, whose goal is 25.
func measured(figures map[string]int) []measurement {
	var m measurement
	for _, g := range gates() {
		if g.name == "methods" {
			m.gate = g
		}
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		m.subjects = append(m.subjects, subject{name: name, figure: figures[name], goal: 25})
	}
	return []measurement{m}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		figure, row int // 0: no subject; no row
		want        string
	}{
		"at the goal":              {figure: 25},
		"above the goal":           {figure: 26, want: "above: 26 instead of 25"},
		"as allowed":               {figure: 30, row: 30},
		"above the allowance":      {figure: 31, row: 30, want: "above: 31 instead of 30"},
		"below the allowance":      {figure: 29, row: 30, want: "p.T is below its row: 29 instead of 30 methods"},
		"row of a met goal":        {figure: 25, row: 30, want: "p.T meets the goal and needs no row"},
		"row below the goal":       {figure: 20, row: 10, want: "p.T meets the goal and needs no row"},
		"row of no subject":        {row: 30, want: "there is no p.T: remove its row, or rename the subject of the row"},
		"above goal and small row": {figure: 26, row: 10, want: "above: 26 instead of 25"},
	} {
		t.Run(name, func(t *testing.T) {
			figures, rows := map[string]int{}, allowances{}
			if test.figure > 0 {
				figures["p.T"] = test.figure
			}
			if test.row > 0 {
				rows[key{"methods", "p.T"}] = test.row
			}
			o := check(measured(figures), rows)[0]
			got := slices.Clone(o.stale)
			for _, p := range o.above {
				got = append(got, "above: "+strings.Join([]string{itoa(p.figure), "instead of", itoa(p.allowed)}, " "))
			}
			if text := strings.Join(got, "; "); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			if o.passed() != (test.want == "") {
				t.Errorf("passed: %v", o.passed())
			}
		})
	}
}

func TestCheckIgnoresRowsOfOtherGates(t *testing.T) {
	if o := check(measured(nil), allowances{{"lines", "a.go"}: 600})[0]; !o.passed() {
		t.Errorf("stale: %q", o.stale)
	}
}

func TestCheckFailsWithoutMeasurement(t *testing.T) {
	m := measured(nil)
	m[0].err = errors.New("does not compile")
	if o := check(m, allowances{{"methods", "p.T"}: 30})[0]; o.passed() || len(o.stale) > 0 {
		t.Errorf("passed: %v, stale: %q", o.passed(), o.stale)
	}
}

func TestLowered(t *testing.T) {
	rows := allowances{
		{"methods", "p.Same"}: 30, {"methods", "p.Less"}: 30, {"methods", "p.More"}: 30,
		{"methods", "p.Met"}: 30, {"methods", "p.Gone"}: 30,
	}
	m := measured(map[string]int{"p.Same": 30, "p.Less": 28, "p.More": 40, "p.Met": 25, "p.New": 50})
	want := allowances{{"methods", "p.Same"}: 30, {"methods", "p.Less"}: 28, {"methods", "p.More"}: 30}
	if got := lowered(rows, m); !maps.Equal(got, want) {
		t.Errorf("lowered: %v, want %v", got, want)
	}
}

func TestInitial(t *testing.T) {
	m := measured(map[string]int{"p.Met": 25, "p.Above": 26})
	m = append(m, measurement{
		gate:   gate{name: "commits", strict: true},
		result: result{subjects: []subject{{name: "abc", figure: 1}}},
	})
	if got, want := initial(m), (allowances{{"methods", "p.Above"}: 26}); !maps.Equal(got, want) {
		t.Errorf("initial: %v, want %v", got, want)
	}
}
