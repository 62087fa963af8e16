package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// point is one of a curve.
type point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// The curves that a run records. Those of memory are in MB, of one thing in ms.
const (
	curveSpaces, curveObjects, curveLocations     = "memory.spaces", "memory.objects", "memory.locations"
	curveCreateTime, curveCreateCPU               = "create.time", "create.cpu"
	curveEditP50, curveEditP99, curveEditCPU      = "edit.p50", "edit.p99", "edit.cpu"
	curveFanOutCreate, curveFanOutEdit            = "fanout.create", "fanout.edit"
	curveReconnect, curveReconnectLost, curveBare = "reconnect.synced", "reconnect.lost", "reconnect.bare"
)

// stages are a quarter, a half and the whole of n.
func stages(n int) []int {
	return slices.Compact([]int{max(1, n/4), max(1, n/2), n})
}

// charts are what is drawn, each into a file of its own.
func charts() []chart {
	const megabytes, milliseconds, seconds = "MB", "ms", "s"
	return []chart{
		{file: "spaces", title: "A hub's memory, by spaces", x: "spaces", y: megabytes, curves: []curve{{curveSpaces, "idle spaces"}}},
		{file: "objects", title: "A hub's memory, by objects", x: "objects of 2 KB", y: megabytes, curves: []curve{{curveObjects, "with the spaces that they are in"}}},
		{file: "locations", title: "A hub's memory, by locations", x: "connected locations", y: megabytes, curves: []curve{{curveLocations, "connected"}}},
		{file: "creates", title: "A create, by objects that are there", x: "objects of 2 KB", y: milliseconds, curves: []curve{
			{curveCreateCPU, "CPU of the hub"}, {curveCreateTime, "time, of 16 clients"},
		}},
		{file: "edits", title: "An edit at a steady rate, by the rate", x: "edits a second", y: milliseconds, logarithmic: true, curves: []curve{
			{curveEditP99, "until its location has it, p99"}, {curveEditP50, "p50"}, {curveEditCPU, "CPU of the hub"},
		}},
		{file: "fanout", title: "One object for all, by locations", x: "locations", y: milliseconds, curves: []curve{
			{curveFanOutCreate, "new: the last has it"}, {curveFanOutEdit, "edited: the last has it"},
		}},
		{file: "reconnects", title: "All connect at once, by locations", x: "locations", y: seconds, curves: []curve{
			{curveReconnectLost, "having lost all: the last has all again"}, {curveReconnect, "in sync"}, {curveBare, "bare connections"},
		}},
	}
}

// drawCommitted draws the curves of the committed results in dir into another directory. It
// takes each curve from the newest reference run that has it, or else from a small one.
func drawCommitted(dir, to string) error {
	all := map[string]drawn{}
	for _, pattern := range []string{"small*.json", "reference*.json"} {
		runs, err := readRuns(filepath.Join(dir, "results", pattern))
		if err != nil {
			return err
		}
		for _, run := range runs {
			for name, points := range run.Curves {
				all[name] = drawn{points, run.origin(pattern == "small*.json")}
			}
		}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	for _, c := range charts() {
		if err := os.WriteFile(filepath.Join(to, c.file+".svg"), c.draw(all), 0o644); err != nil {
			return fmt.Errorf("draw %q: %w", c.file, err)
		}
	}
	return nil
}

// origin describes the run that a curve is from.
func (s saved) origin(small bool) string {
	name := "make bench"
	if small {
		name = "a small run"
	}
	return fmt.Sprintf("%s at %s on %s, %d CPUs", name, s.Commit, s.Start.Format("2006-01-02"), s.Before.CPUs)
}

// readRuns reads results, the oldest first.
func readRuns(pattern string) ([]saved, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	all := make([]saved, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		var run saved
		if err := json.Unmarshal(text, &run); err != nil {
			return nil, fmt.Errorf("read %q: %w", file, err)
		}
		all = append(all, run)
	}
	slices.SortFunc(all, func(a, b saved) int { return a.Start.Compare(b.Start) })
	return all, nil
}
