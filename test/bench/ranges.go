package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// limits is what a value may be before the run fails; an absent end is open.
type limits struct {
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Why names the reason for the distance between the limits and what was measured.
	Why string `json:"why,omitempty"`
	// Small are those of a small run; nil: its value says nothing.
	Small *limits `json:"small,omitempty"`
}

// ranges are the limits by the ID of a line.
type ranges map[string]limits

// small are the limits of a small run.
func (r ranges) small() ranges {
	all := ranges{}
	for id, l := range r {
		if l.Small != nil {
			all[id] = *l.Small
		}
	}
	return all
}

// committedRanges is the file of the ranges. Reasons are why a range is as wide as it
// is, by a word that the ranges name.
type committedRanges struct {
	Reasons map[string]string `json:"reasons"`
	Ranges  ranges            `json:"ranges"`
}

func (l limits) contains(v float64) bool {
	return (l.Min == nil || v >= *l.Min) && (l.Max == nil || v <= *l.Max)
}

func (l limits) String() string {
	switch {
	case l.Min != nil && l.Max != nil:
		return fmt.Sprintf("%g..%g", *l.Min, *l.Max)
	case l.Min != nil:
		return fmt.Sprintf("≥%g", *l.Min)
	case l.Max != nil:
		return fmt.Sprintf("≤%g", *l.Max)
	}
	return "any"
}

// readRanges reads the committed ranges.
func readRanges(dir string) (all committedRanges, err error) {
	file := filepath.Join(dir, "ranges.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return all, fmt.Errorf("read the ranges (run from the root of the repository, or give -dir): %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		return all, fmt.Errorf("read %q: %w", file, err)
	}
	return all, nil
}
