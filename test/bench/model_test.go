package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page has the model of larger fleets from the committed results: go run ./test/bench -model
// docs/scaling.md.
func TestModelIsThatOfThePage(t *testing.T) {
	text, err := os.ReadFile(drawingsPage)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeModel(committed, page); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(page); err != nil || string(again) != string(text) {
		t.Errorf("%s is not what the committed results give: write it again (%v)", drawingsPage, err)
	}
}

// What a population takes is the sum of what its parts do, and the first limit is that of which
// it takes most.
func TestModel(t *testing.T) {
	m := model{}
	for id, v := range map[string]float64{
		"memory.hub": 20, "fleet.location.memory": 100, "object.memory": 5, "report.memory": 1, "fleet.disk": 100,
		"fleet.restart.ready": 10, "fleet.restart.back": 16,
	} {
		m[id] = cost{savedLine: savedLine{ID: id, Value: v}}
	}
	fleet := fleetOf(fullSize())
	twice := population{2 * fleet.locations, 2 * fleet.objects, 2 * fleet.pairs}
	if got, want := m.memory(population{10, 100, 1000}), 20e6+10*100e3+100*5e3+1000*1e3; got != want {
		t.Errorf("the memory is %g, want %g", got, want)
	}
	for name, got := range map[string][2]float64{
		"the log": {m.log(twice), 200e6}, "the start": {m.start(twice), 20}, "all in sync": {m.back(twice), 32},
		"more reports alone": {m.start(population{1, 0, 3 * fleet.pairs}), 30},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %g, want %g", name, got[0], got[1])
		}
	}
	for first, p := range map[string]population{
		"memory of a machine": {1e6, 0, 0}, "four fifths of the log": {0, 0, 1000 * fleet.pairs},
	} {
		if got := m.limits(p); !strings.HasPrefix(got[0].what, first) || got[0].fraction < got[1].fraction || got[1].fraction < got[2].fraction {
			t.Errorf("the limits of %v are %v", p, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		count(0): "0", count(999): "999", count(1000): "1,000", count(1234567): "1,234,567",
		megaOrGiga(1.5e9): "1.5 GB", megaOrGiga(23e6): "23 MB",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
